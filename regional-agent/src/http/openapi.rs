//! `GET /openapi.json`: this interface in OpenAPI 3.1, made of the annotations of the handlers and of the types that
//! are read and written.
//!
//! The routes stand in [`super::router`] and again in `Document`, since the handlers are generic and utoipa-axum joins
//! only those that are not; a test compares the two.

use super::problems;
use axum::body::Bytes;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use quorate_shared::problem::{PROBLEM_JSON, Problem};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, HeaderBuilder, OpenApi as Api, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, Modify, OpenApi};

#[derive(OpenApi)]
#[openapi(
    info(title = "Quorate agent", description = "Decides by the limits of one region. docs/operations.md says more."),
    paths(
        super::check,
        super::checks,
        super::reserve,
        super::settle,
        super::release,
        super::authz::ask,
        super::status,
        super::healthz,
        super::readyz,
        super::exposition,
        document
    ),
    components(schemas(Problem)),
    security((), ("token" = [])),
    modifiers(&Tokens)
)]
struct Document;

/// The bearer tokens of `tokens`.
struct Tokens;

impl Modify for Tokens {
    fn modify(&self, api: &mut Api) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        api.components.get_or_insert_default().add_security_scheme("token", SecurityScheme::Http(bearer));
    }
}

/// The description of the whole interface.
pub fn api() -> Api {
    Document::openapi()
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "agent", responses((status = 200, description = "OpenAPI 3.1.")), security(()))]
pub(super) async fn document() -> impl IntoResponse {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| api().to_json().unwrap_or_default().into());
    ([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], TEXT.clone())
}

/// What may be answered where a decision is asked for and the answer is not 200.
pub struct Decided;

impl IntoResponses for Decided {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let refused = [problems::quota_exceeded(), problems::cost_exceeds_limit(), problems::limiter_unavailable()];
        let unauthorized = problems::unauthorized();
        responses(refused.into_iter().chain([unauthorized]))
    }
}

/// What may be answered to a body that cannot be read, or a caller who may not ask.
pub struct Unread;

impl IntoResponses for Unread {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let sizes = [problems::body_too_large(super::FrontDoor::default().max_body), problems::unsupported_media_type()];
        let others = [problems::invalid_request(Vec::new()), problems::slow_body(), problems::unauthorized()];
        responses(sizes.into_iter().chain(others))
    }
}

/// What is answered about a reservation that has ended.
pub struct Ended;

impl IntoResponses for Ended {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        responses([problems::reservation_ended()])
    }
}

fn responses(problems: impl IntoIterator<Item = Problem>) -> BTreeMap<String, RefOr<Response>> {
    problems.into_iter().map(|problem| (problem.status.to_string(), RefOr::T(response(&problem)))).collect()
}

fn response(problem: &Problem) -> Response {
    let schema = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let response = ResponseBuilder::new().description(problem.title.clone()).content(PROBLEM_JSON, schema);
    if matches!(problem.status, 429 | 503) {
        return response.header("Retry-After", HeaderBuilder::new().description(Some("Whole seconds, at least 1.")).build()).build();
    }
    response.build()
}
