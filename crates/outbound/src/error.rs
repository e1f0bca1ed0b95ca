//! Why nothing came back. Texts name the host and never the path or the query, which may hold secrets.
//!
//! The cause is for the operator's log and for whoever configured the URL. Who merely named a URL from outside is told
//! one sentence for all causes by the caller of this crate, so that a node is no port scanner.

use crate::address::AddressClass;
use crate::target::BadUrl;
use std::net::IpAddr;

/// How far a call came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboundReach {
    /// Refused here; nobody was asked.
    NotTried,
    /// Nobody answered, or nobody who can prove to be the host. Later it may be different.
    Unreachable,
    /// Somebody answered, and the answer is not taken.
    Answered,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutboundError {
    /// The URL itself is not fetched.
    #[error("the URL is not fetched: {0}")]
    Url(#[from] BadUrl),
    /// The request is not sent.
    #[error("the request is not sent: {0}")]
    Request(&'static str),
    /// The host has an address that is not reached.
    #[error("{host} is not reached: {address} is a {} address{}", class.name(), way_out(*class))]
    Address {
        /// The host as named.
        host: String,
        /// The first of its addresses that is not reached.
        address: IpAddr,
        /// What it is.
        class: AddressClass,
    },
    /// Plain HTTP goes to private hosts only.
    #[error("{host} is not reached: plain http is for private hosts, {address} is public; use https")]
    Plain {
        /// The host as named.
        host: String,
        /// Its address.
        address: IpAddr,
    },
    /// The name is not known.
    #[error("{host} is not found: {reason}")]
    Unknown {
        /// The host as named.
        host: String,
        /// The name service's words.
        reason: String,
    },
    /// No connection came about, or it broke.
    #[error("cannot reach {host}: {reason}")]
    Unreachable {
        /// The host as named.
        host: String,
        /// The cause, in the words of the transport.
        reason: String,
    },
    /// A bound of time was met.
    #[error("{host} took more than {millis} ms {phase}")]
    TooSlow {
        /// The host as named.
        host: String,
        /// For what.
        phase: &'static str,
        /// The bound.
        millis: u64,
    },
    /// It stopped in the middle of its answer, or answered something that is not HTTP.
    #[error("{host} answered wrongly: {reason}")]
    Answer {
        /// The host as named.
        host: String,
        /// What is wrong.
        reason: String,
    },
    /// It wants to send us elsewhere.
    #[error("{host} answered {status}: redirects are not followed, give the URL where it is")]
    Redirect {
        /// The host as named.
        host: String,
        /// The status.
        status: u16,
    },
    /// The body is longer than asked for.
    #[error("the answer of {host} has more than {limit} bytes")]
    TooLarge {
        /// The host as named.
        host: String,
        /// The bound.
        limit: usize,
    },
}

impl OutboundError {
    /// How far the call came.
    pub fn reach(&self) -> OutboundReach {
        match self {
            Self::Url(_) | Self::Request(_) | Self::Address { .. } | Self::Plain { .. } => OutboundReach::NotTried,
            Self::Unknown { .. } | Self::Unreachable { .. } | Self::TooSlow { .. } => OutboundReach::Unreachable,
            Self::Answer { .. } | Self::Redirect { .. } | Self::TooLarge { .. } => OutboundReach::Answered,
        }
    }
}

fn way_out(class: AddressClass) -> &'static str {
    if class.allowed(true) { " (outbound.allow_private_hosts allows it)" } else { "" }
}
