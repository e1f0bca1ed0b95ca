//! gRPC as far as no protocol is concerned: how services are mounted, with health and reflection, and the form of refusals.
//!
//! Not here: the services (the faces).

use crate::status::grpc_status;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use prost::Message as _;
use rialto_model::{ErrorCode, Fault, limits};
use std::convert::Infallible;
use tonic::body::Body as GrpcBody;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::server::NamedService;
use tonic::service::RoutesBuilder;
use tonic::{Code, Status};
use tonic_health::ServingStatus;
use tower::Service;

/// Where a refusal carries its [`Error`].
const ERROR_TRAILER: &str = "rialto-error-bin";

/// A refusal in full: the message `rialto.v1.Error`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Error {
    /// The code of the registry.
    #[prost(string, tag = "1")]
    pub code: String,
    /// What happened, for people.
    #[prost(string, tag = "2")]
    pub message: String,
    /// The event it is about; empty if it is about none.
    #[prost(string, tag = "3")]
    pub event_id: String,
    /// The mod that refused; empty if none did.
    #[prost(string, tag = "4")]
    pub r#mod: String,
    /// Whether it makes sense to try again.
    #[prost(bool, tag = "5")]
    pub retryable: bool,
    /// A JSON object; empty if there are no details.
    #[prost(bytes = "vec", tag = "6")]
    pub details: Vec<u8>,
}

impl Error {
    /// The message of a refusal.
    pub fn of(fault: &Fault, event_id: Option<&str>) -> Error {
        Error {
            code: fault.wire_code().to_owned(),
            message: fault.message.clone(),
            event_id: event_id.unwrap_or_default().to_owned(),
            r#mod: fault.by_mod.as_deref().unwrap_or_default().to_owned(),
            retryable: fault.code.retryable(),
            details: fault.details.as_ref().map(|d| d.to_string().into_bytes()).unwrap_or_default(),
        }
    }
}

/// A refusal as a status, with the whole of it in the trailer `rialto-error-bin`.
pub fn refused(fault: &Fault, event_id: Option<&str>) -> Status {
    let mut metadata = MetadataMap::new();
    let error = Error::of(fault, event_id).encode_to_vec();
    metadata.insert_bin(ERROR_TRAILER, MetadataValue::from_bytes(&error));
    Status::with_metadata(Code::from_i32(grpc_status(fault.code)), fault.to_string(), metadata)
}

/// What a refusal of the gRPC library is in our words: a message beyond the limit, or one that is no message of the call.
/// None for our own refusals, and for what is none.
pub fn foreign_refusal(status: &Status) -> Option<Status> {
    if status.code() == Code::Ok || status.metadata().contains_key(ERROR_TRAILER) {
        return None;
    }
    let text = status.message();
    if text.contains("length too large") {
        let text = format!("a message is at most {} bytes; send fewer events at a time", limits::BATCH_BYTES_MAX);
        return Some(refused(&Fault::new(ErrorCode::TooLarge, text), None));
    }
    if text.contains("decode Protobuf") || text.contains("decoding Protobuf") {
        let text = "the message cannot be read as the one this call takes";
        return Some(refused(&Fault::new(ErrorCode::InvalidArgument, text), None));
    }
    None
}

/// The services of all faces.
#[derive(Debug, Default)]
pub struct GrpcServices {
    routes: RoutesBuilder,
    names: Vec<&'static str>,
    descriptors: Vec<&'static [u8]>,
    conversations: Vec<&'static str>,
}

impl GrpcServices {
    /// Adds a service.
    pub fn add<S>(&mut self, service: S)
    where
        S: Service<Request<GrpcBody>, Error = Infallible> + NamedService + Clone + Send + Sync + 'static,
        S::Response: IntoResponse,
        S::Future: Send + 'static,
    {
        self.routes.add_service(service);
        self.names.push(S::NAME);
    }

    /// Adds an encoded set of file descriptors, for reflection.
    pub fn describe(&mut self, descriptors: &'static [u8]) {
        self.descriptors.push(descriptors);
    }

    /// Says that the call of this path is a conversation, whose client may be silent for long.
    pub fn converse(&mut self, path: &'static str) {
        self.conversations.push(path);
    }

    /// Paths of calls that are conversations.
    pub fn conversations(&self) -> Vec<&'static str> {
        self.conversations.clone()
    }

    /// The routes of all services, of health and of reflection. Must be called on a runtime.
    pub fn router(mut self) -> Router {
        if self.names.is_empty() {
            return Router::new();
        }
        let (health, health_service) = tonic_health::server::health_reporter();
        let names = self.names;
        tokio::spawn(async move {
            for name in names {
                health.set_service_status(name, ServingStatus::Serving).await;
            }
        });
        self.routes.add_service(health_service);
        let mut reflection = tonic_reflection::server::Builder::configure();
        for descriptors in self.descriptors {
            reflection = reflection.register_encoded_file_descriptor_set(descriptors);
        }
        let reflection =
            reflection.register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET).build_v1();
        match reflection {
            Ok(reflection) => drop(self.routes.add_service(reflection)),
            Err(error) => tracing::error!(%error, "gRPC reflection is not offered: descriptors cannot be read"),
        }
        let routes = self.routes.routes().into_axum_router().reset_fallback();
        routes.layer(axum::middleware::map_response(in_our_words))
    }
}

/// Gives refusals that the gRPC library makes itself (a message that is too large or cannot be read) our status and trailer.
async fn in_our_words(response: Response) -> Response {
    match Status::from_header_map(response.headers()).and_then(|status| foreign_refusal(&status)) {
        Some(ours) => ours.into_http::<Body>(),
        None => response,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_carries_its_message() {
        let status = refused(&ErrorCode::UnknownTarget.into(), Some("e1"));
        assert_eq!(status.code(), Code::NotFound);
        let bytes = status.metadata().get_bin(ERROR_TRAILER).unwrap().to_bytes().unwrap();
        let error = Error::decode(bytes).unwrap();
        assert_eq!((error.code.as_str(), error.event_id.as_str(), error.retryable), ("unknown_target", "e1", false));
    }
}
