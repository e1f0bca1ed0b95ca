//! HTTP operations as tables: a face's routes and its part of the OpenAPI document are both made from one.

use crate::describe::{OpTypes, Schemas};
use axum::Router;
use axum::routing::MethodRouter;
use rialto_model::ErrorCode;

/// Who may call an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anybody.
    Public,
    /// A member, or a holder of the network's credential.
    Network,
    /// The operator.
    Operator,
}

impl Access {
    /// Its name in the OpenAPI document.
    pub fn as_str(self) -> &'static str {
        match self {
            Access::Public => "public",
            Access::Network => "network",
            Access::Operator => "operator",
        }
    }
}

/// One operation.
#[derive(Debug, Clone, Copy)]
pub struct Op {
    /// HTTP method, lower case.
    pub method: &'static str,
    /// Path with `{parameters}`.
    pub path: &'static str,
    /// Name in the OpenAPI document.
    pub id: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Who may call.
    pub access: Access,
    /// Also served under `/v1/ws/{network}/…`.
    pub scoped: bool,
    /// Describes the types of its query, its body and its answer.
    pub types: fn(&mut Schemas) -> OpTypes,
    /// What it is refused with, besides what every operation of its access and body is ([`crate::openapi`]).
    pub refusals: &'static [ErrorCode],
}

/// Declares `OPS`, the operations of a face, and `HANDLERS`, what answers each of them, for routers with the given state.
///
/// A row names the types of the query, of the body and of the answer, `(Query, Body) -> Answer`, and the codes that the
/// operation is refused with. Queries are structs with a schema; bodies are [`RequestBody`](crate::describe::RequestBody), answers
/// are [`AnswerBody`](crate::describe::AnswerBody).
#[macro_export]
macro_rules! operations {
    (for $state:ty; $($method:ident $path:literal $id:literal $access:ident $scoped:ident ($query:ty, $body:ty) -> $answer:ty, $refusals:expr, $handler:expr, $summary:literal;)*) => {
        /// Every operation of this table.
        pub const OPS: &[$crate::operations::Op] = &[$($crate::operations::Op {
            method: stringify!($method), path: $path, id: $id, summary: $summary,
            access: $crate::operations::Access::$access, scoped: $crate::operations!(@scoped $scoped),
            types: $crate::describe::OpTypes::of::<$query, $body, $answer>, refusals: $refusals,
        },)*];
        /// What answers each of [`OPS`], in the same order.
        pub(crate) const HANDLERS: &[fn() -> ::axum::routing::MethodRouter<$state>] = &[$(|| ::axum::routing::$method($handler),)*];
    };
    (@scoped scoped) => { true };
    (@scoped plain) => { false };
}

/// The path of an operation below a network.
pub fn scoped_path(op: &Op) -> Option<String> {
    op.scoped.then(|| op.path.replacen("/v1/", "/v1/ws/{network}/", 1))
}

/// The routes of a table, for each operation what answers it.
pub fn routes<S: Clone + Send + Sync + 'static>(ops: &[Op], handlers: &[fn() -> MethodRouter<S>]) -> Router<S> {
    let mut router = Router::new();
    for (op, handler) in ops.iter().zip(handlers) {
        router = router.route(op.path, handler());
        if let Some(path) = scoped_path(op) {
            router = router.route(&path, handler());
        }
    }
    router
}
