//! Bodies that an agent reads.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Schema, Type};

/// Body of `POST /v1/check`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckRequest {
    /// What is known of the request.
    #[schema(schema_with = attributes)]
    pub attributes: BTreeMap<String, String>,
    /// Tokens it takes from every matching policy; 0 only looks. Absent: as each policy says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 9_007_199_254_u64)]
    pub cost: Option<u64>,
    /// Makes a retry return the first answer and charge nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub request_id: Option<String>,
}

/// Body of `POST /v1/reserve`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReserveRequest {
    /// What is known of the request.
    #[schema(schema_with = attributes)]
    pub attributes: BTreeMap<String, String>,
    /// Tokens that it is estimated to take from every matching policy. Absent: as each policy says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 9_007_199_254_u64)]
    pub cost: Option<u64>,
    /// How long it may be settled, such as `60s`; from 1ms to 10min. Absent: a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        pattern = "^(([1-9][0-9]{3,7}|[1-5][0-9]{8}|600000000)us|([1-9][0-9]{0,4}|[1-5][0-9]{5}|600000)ms|([1-9][0-9]?|[1-5][0-9]{2}|600)s|([1-9]|10)min)$"
    )]
    pub ttl: Option<String>,
    /// Makes a retry return the first answer and charge nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub request_id: Option<String>,
}

/// Body of `POST /v1/settle`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SettleRequest {
    /// As `POST /v1/reserve` answered it.
    #[schema(pattern = "^[0-9a-f]{32}$")]
    pub reservation: String,
    /// Tokens that it truly took of every limit.
    #[schema(maximum = 9_007_199_254_u64)]
    pub cost: u64,
}

/// Body of `POST /v1/release`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// As `POST /v1/check` answered it.
    #[schema(pattern = "^[0-9a-f]{32}$")]
    pub slot: String,
}

/// What an agent takes of attributes.
fn attributes() -> Object {
    let text = |least, most| ObjectBuilder::new().schema_type(Type::String).min_length(least).max_length(Some(most)).build();
    let object = ObjectBuilder::new().schema_type(Type::Object).description(Some("What is known of the request."));
    object
        .property_names(Some(text(Some(1), 128)))
        .additional_properties(Some(Schema::Object(text(None, 8192))))
        .max_properties(Some(64))
        .build()
}
