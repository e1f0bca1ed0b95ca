//! Who is in a network.

use crate::session::Session;
use rialto_model::Fault;
use serde_json::{Value, json};

impl Session {
    /// Addresses of the members that the caller may know of, in the order of joining.
    pub async fn members(&self) -> Result<Vec<String>, Fault> {
        let roster = self.discover(&json!({ "include": ["agents"] }), false).await?;
        let members = roster.get("agents").and_then(Value::as_array).into_iter().flatten();
        let address = |member: &Value| member.get("address").and_then(Value::as_str).map(str::to_owned);
        Ok(members.filter_map(address).collect())
    }
}
