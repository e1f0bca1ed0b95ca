//! From a name to addresses: asked once for each call. A seam, so that a test can play a name server that changes its mind.

use rialto_model::limits::OUTBOUND_LOOKUPS_MAX;
use std::future::Future;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Looks up a name.
pub trait NameResolver: Send + Sync + 'static {
    /// All addresses of the host, in the order in which they are to be tried.
    fn resolve<'a>(&'a self, host: &'a str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;
}

impl<F> NameResolver for F
where
    F: Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
{
    fn resolve<'a>(&'a self, host: &'a str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        let found = self(host);
        Box::pin(std::future::ready(found))
    }
}

/// The system's own look-up. It cannot be called off, so a slow name server holds a place until it answers.
#[derive(Debug, Clone)]
pub struct SystemResolver {
    places: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> SystemResolver {
        SystemResolver { places: Arc::new(Semaphore::new(OUTBOUND_LOOKUPS_MAX)) }
    }
}

impl NameResolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        Box::pin(async move {
            let place = self.places.clone().acquire_owned().await.map_err(io::Error::other)?;
            let host = host.to_owned();
            let looked_up = tokio::task::spawn_blocking(move || {
                let found = (host.as_str(), 0).to_socket_addrs();
                drop(place);
                found.map(|addresses| addresses.map(|address| address.ip()).collect())
            });
            looked_up.await.map_err(io::Error::other)?
        })
    }
}

impl std::fmt::Debug for dyn NameResolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NameResolver")
    }
}
