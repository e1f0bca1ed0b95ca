//! What the node's identities fetch from others, through the one guarded client.

use rialto_node::identities::{Fetch as FetchDocument, FetchError, Fetching};
use rialto_outbound::{Fetch, FetchBounds, Outbound, OutboundReach};

/// The guarded client as the node's identities know it.
#[derive(Debug, Clone)]
pub(crate) struct OutwardFetch(pub(crate) Outbound);

impl FetchDocument for OutwardFetch {
    fn get<'f>(&'f self, url: &'f str, bytes_max: usize) -> Fetching<'f> {
        Box::pin(async move {
            let bounds = FetchBounds { answer_bytes: bytes_max, ..FetchBounds::default() };
            let fetched = self.0.fetch(Fetch::get(url).within(bounds)).await.map_err(|error| match error.reach() {
                OutboundReach::Unreachable => FetchError::Unreachable(error.to_string()),
                OutboundReach::NotTried | OutboundReach::Answered => FetchError::Refused(error.to_string()),
            })?;
            match fetched.status {
                200..300 => Ok(fetched.body.to_vec()),
                500.. => Err(FetchError::Unreachable(format!("it answered with status {}", fetched.status))),
                status => Err(FetchError::NotThere(status)),
            }
        })
    }
}
