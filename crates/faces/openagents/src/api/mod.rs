//! What the operations of this face take and give, as types: its part of the OpenAPI document is made of them.
//!
//! Nouns are views of the model (`rialto_model::view`); here is what only this face says.

pub mod answers;
pub mod empty;
pub mod frames;
pub mod queries;
pub mod requests;
