//! Snapshots of a network's state: what is read has one form, which reads back to the same state.

use rialto_engine::State;

pub fn check(data: &[u8]) {
    let Ok(state) = State::from_snapshot(data, 9) else { return };
    let written = state.to_snapshot();
    let again = State::from_snapshot(&written, 11).unwrap_or_else(|e| panic!("our own snapshot is refused: {e:?}"));
    assert_eq!(again.to_snapshot(), written);
    assert_eq!(again.hash(), state.hash());
}
