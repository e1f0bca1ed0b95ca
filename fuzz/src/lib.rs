//! What must hold of every format that strangers write, as properties of bytes. The fuzz targets call these.

pub mod address;
pub mod event;
pub mod query;
pub mod schema;
pub mod segment;
pub mod snapshot;
pub mod stream_frame;
