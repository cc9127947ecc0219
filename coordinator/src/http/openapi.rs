//! `GET /openapi.json`: this interface in OpenAPI 3.1, made of the annotations of the handlers and of the types that
//! are sent. What peers say to each other is not in it.

use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use quorate_shared::audit::AuditKind;
use quorate_shared::problem::Problem;
use std::sync::LazyLock;
use utoipa::openapi::OpenApi as Api;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

#[derive(OpenApi)]
#[openapi(
    info(title = "Quorate coordinator", description = "Owns the limits, and says how they stand. docs/operations.md says more."),
    paths(
        super::views::regions,
        super::views::bound,
        super::views::cluster,
        super::budgets::budgets,
        super::policies::show,
        super::policies::replace,
        super::history::show,
        super::history::roll_back,
        super::compare::show,
        super::trials::show,
        super::what_if::show,
        super::lately::show,
        super::backup::snapshot,
        super::backup::restore,
        super::audit::audit,
        super::events::stream,
        super::heartbeat::take,
        super::fence::fence,
        super::explain::explain,
        super::lease::change,
        super::members::init,
        super::members::add,
        super::members::remove,
        super::members::transfer_leader,
        super::alarms::clear,
        super::health::alive,
        super::health::ready,
        super::health::metrics,
        document
    ),
    components(schemas(Problem, AuditKind)),
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

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "health", responses((status = 200, description = "OpenAPI 3.1.")), security(()))]
pub async fn document() -> impl IntoResponse {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| Document::openapi().to_json().unwrap_or_default().into());
    ([(CONTENT_TYPE, "application/json")], TEXT.clone())
}
