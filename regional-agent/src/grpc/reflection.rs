//! `grpc.reflection.v1.ServerReflection`: what the services of this front door look like, for tools such as grpcurl.

use super::SERVICES;
use tonic_reflection::server::Builder;
use tonic_reflection::server::v1::{ServerReflection, ServerReflectionServer};

/// A `FileDescriptorSet` of Envoy's services for rate limits and of all that they import, taken out of the set from which
/// `envoy-types` 0.7.7 was generated.
const ENVOY: &[u8] = include_bytes!("envoy.bin");

/// The service; `None` if the descriptors cannot be read, which a test rules out.
pub fn service() -> Option<ServerReflectionServer<impl ServerReflection>> {
    let health = tonic_health::pb::FILE_DESCRIPTOR_SET;
    let sets = Builder::configure().register_encoded_file_descriptor_set(ENVOY).register_encoded_file_descriptor_set(health);
    let named = SERVICES.iter().chain(&["grpc.health.v1.Health"]).fold(sets, |sets, name| sets.with_service_name(*name));
    named.build_v1().inspect_err(|error| tracing::error!(%error, "no reflection")).ok()
}
