//! The coordinator over HTTP: real nodes in this process, on ports of their own.

#![allow(clippy::expect_used, clippy::panic)]

mod access;
mod agents;
mod audit;
mod backup;
mod cluster;
mod history;
mod openapi;
mod page;
mod policies;
mod problems;
mod views;
mod what_if;
