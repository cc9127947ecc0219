//! Bodies that an agent reads.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Body of `POST /v1/check`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckRequest {
    /// What is known of the request.
    pub attributes: BTreeMap<String, String>,
    /// Tokens it takes from every matching policy; 0 only looks. Absent: as each policy says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// Makes a retry return the first answer and charge nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// Body of `POST /v1/reserve`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReserveRequest {
    /// What is known of the request.
    pub attributes: BTreeMap<String, String>,
    /// Tokens that it is estimated to take from every matching policy. Absent: as each policy says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// How long it may be settled, such as `60s`; from 1ms to 10min. Absent: a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
    /// Makes a retry return the first answer and charge nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// Body of `POST /v1/settle`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SettleRequest {
    /// As `POST /v1/reserve` answered it.
    pub reservation: String,
    /// Tokens that it truly took of every limit.
    pub cost: u64,
}

/// Body of `POST /v1/release`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// As `POST /v1/check` answered it.
    pub slot: String,
}
