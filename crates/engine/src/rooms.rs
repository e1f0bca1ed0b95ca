//! Direct rooms: restricted two-party conversations (agh-network/v0, section 5.2).
//!
//! Invariant: the id depends on workspace, channel and the *sorted* pair of peers, so both ends derive the same one.
//! Not here: who may see a room, and how an address becomes the text of a peer.

use rialto_model::hex;
use sha2::{Digest, Sha256};

const DOMAIN: &[u8] = b"agh-network/direct-room/v0";
/// 16 bytes of the hash, as 32 hex digits.
const ID_BYTES: usize = 16;

/// The id of the room of two different peers, named in any order.
pub fn direct_id(workspace: &str, channel: &str, a: &str, b: &str) -> String {
    let hash = Sha256::digest(input(workspace, channel, a, b));
    format!("direct_{}", hex::text(hash.get(..ID_BYTES).unwrap_or_default()))
}

/// What is hashed: the parts between NULs, the peers trimmed and in the order of their bytes.
fn input(workspace: &str, channel: &str, a: &str, b: &str) -> Vec<u8> {
    let (a, b) = (a.trim(), b.trim());
    let sorted = a <= b || crate::bugs::on("peers of a room unsorted");
    let (first, second) = if sorted { (a, b) } else { (b, a) };
    let parts = [DOMAIN, workspace.as_bytes(), channel.as_bytes(), first.as_bytes(), second.as_bytes()];
    parts.join(&0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Vectors {
        rooms: Vec<Room>,
        placeholders: Vec<String>,
    }

    #[derive(Deserialize)]
    struct Room {
        workspace: String,
        channel: String,
        peers: [String; 2],
        direct_id: String,
        input_hex: Option<String>,
        sha256: Option<String>,
    }

    fn vectors() -> Vectors {
        serde_json::from_str(include_str!("../../../vectors/direct-rooms.json")).unwrap()
    }

    #[test]
    fn ids_are_those_of_the_specification() {
        let vectors = vectors();
        assert_eq!(vectors.rooms.len(), 4);
        for room in &vectors.rooms {
            let [a, b] = &room.peers;
            for (a, b) in [(a.clone(), b.clone()), (b.clone(), a.clone()), (format!(" {a}\t"), b.clone())] {
                let id = direct_id(&room.workspace, &room.channel, &a, &b);
                assert_eq!(id, room.direct_id, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn what_is_hashed_is_that_of_the_specification_byte_for_byte() {
        let room = vectors().rooms.into_iter().find(|r| r.input_hex.is_some()).unwrap();
        let bytes = input(&room.workspace, &room.channel, &room.peers[1], &room.peers[0]);
        assert_eq!(bytes.len(), 73);
        assert_eq!(hex::text(&bytes), room.input_hex.unwrap());
        assert_eq!(hex::text(&Sha256::digest(&bytes)), room.sha256.unwrap());
    }

    #[test]
    fn sample_ids_of_upstream_prose_belong_to_nobody() {
        let vectors = vectors();
        for placeholder in &vectors.placeholders {
            assert!(vectors.rooms.iter().all(|room| !room.direct_id.starts_with(placeholder.as_str())));
        }
    }

    proptest! {
        #[test]
        fn both_ends_derive_the_same_id(workspace: String, channel: String, a: String, b: String) {
            let id = direct_id(&workspace, &channel, &a, &b);
            prop_assert_eq!(&id, &direct_id(&workspace, &channel, &b, &a));
            let digits = id.strip_prefix("direct_").unwrap();
            prop_assert!(digits.len() == 32 && digits.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')));
        }

        #[test]
        fn every_part_counts(
            parts in prop::collection::vec("[a-z0-9._-]{1,6}", 4),
            at in 0usize..4,
            other in "[a-z0-9._-]{1,6}",
        ) {
            let mut changed = parts.clone();
            changed[at] = other;
            let id = |p: &[String]| direct_id(&p[0], &p[1], &p[2], &p[3]);
            let same = parts == changed
                || (parts[..2] == changed[..2] && parts[2] == changed[3] && parts[3] == changed[2]);
            prop_assert_eq!(id(&parts) == id(&changed), same);
        }
    }
}
