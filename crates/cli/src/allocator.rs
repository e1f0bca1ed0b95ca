//! Memory that goes back to the system after a burst.
//!
//! The allocator of glibc keeps large blocks once it has seen some of them freed: a node that held a hundred megabytes for readers that did
//! not read would keep most of them for ever, and told to give every large block back at once it makes a node pay for each of them anew
//! with every batch (docs/benchmarks.md). This one keeps what was freed for a moment, to be used again, and gives back what nobody wanted
//! (`.cargo/config.toml` says after how long).

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
