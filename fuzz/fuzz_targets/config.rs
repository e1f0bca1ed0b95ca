#![no_main]

// The program is not a library; its settings are taken in as they are.
#[allow(dead_code, unused_imports, reason = "the program uses the rest")]
#[path = "../../crates/cli/src/env.rs"]
mod env;
#[allow(dead_code, unused_imports, reason = "the program uses the rest")]
#[path = "../../crates/cli/src/exit.rs"]
mod exit;
#[allow(dead_code, unused_imports, reason = "the program uses the rest")]
#[path = "../../crates/cli/src/settings/mod.rs"]
mod settings;

use settings::{Flags, Settings};
use std::path::{Path, PathBuf};

libfuzzer_sys::fuzz_target!(|data: &[u8]| check(data));

/// A configuration file is read or refused with words, the same way each time; what is read is within its bounds.
fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let file = Some((Path::new("rialto.toml"), text));
    let flags = || Flags { values: Vec::new(), token: None };
    let merge = || Settings::merge(PathBuf::from("data"), file, &env::Env::default(), &flags());
    match (merge(), merge()) {
        (Ok(settings), Ok(again)) => {
            assert_eq!(settings, again);
            assert_eq!(settings.store.data, Path::new("data"), "the directory is found before the file is read");
            let limits = &settings.limits;
            assert!((1..=rialto_model::limits::CONNECTIONS_MAX).contains(&limits.connections_max));
            assert!((1..=rialto_model::limits::MEMBERS_MAX).contains(&limits.members_max));
            let server = &settings.server;
            let safe = server.listen.ip().is_loopback() || server.tls_cert.is_some() || server.insecure;
            assert!(safe, "{} can be reached from outside", server.listen);
            assert!(!settings.network.open || server.listen.ip().is_loopback());
        }
        (Err(refused), Err(again)) => {
            assert!(!refused.message.is_empty());
            assert_eq!(refused.message, again.message);
        }
        (one, other) => panic!("read and refused: {one:?} {other:?}"),
    }
}
