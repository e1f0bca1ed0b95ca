//! `redact`: what was said is gone everywhere and for good, and everything else is as it was.

use crate::ids;
use crate::support::Node;
use crate::verify::{files, holds};

const SECRET: &str = "swordfish-纪要-9f3b";

#[test]
fn a_redacted_text_is_gone_for_good() {
    let mut node = Node::start();
    node.line("inbox --as bob").ok();
    node.line("send channel/general before --as alice --id r0").ok();
    let text = format!("the code is {SECRET}");
    node.words(&["send", "channel/general", &text, "--as", "alice", "--id", "r1"]).ok();
    node.line("send channel/general after --as alice --id r2").ok();
    assert_eq!(ids(&node.words(&["search", SECRET, "--json"]).ok()), ["r1"]);
    assert!(files(&node.data()).iter().any(|file| holds(file, SECRET)), "it is somewhere before");

    node.line("redact r1 --json").ok().json();
    node.line("redact no-such-event").fails(3, "no-such-event");
    let gone = |node: &Node| {
        for line in ["history --json", "history channel/general --json --as bob", "inbox --json --as bob", "history"] {
            let ran = node.line(line).ok();
            assert!(ran.out.contains("r1") && !ran.out.contains(SECRET), "{line}: {ran:?}");
        }
        assert_eq!(ids(&node.words(&["search", SECRET, "--json"]).ok()), Vec::<String>::new());
        assert_eq!(ids(&node.line("search swordfish --json").ok()), Vec::<String>::new());
        let told = node.line("explain r1 --json").ok().json();
        assert_eq!((&told["redacted"], &told["source"]), (&true.into(), &"agent:alice".into()), "{told}");
        assert_eq!(node.line("verify --json").ok().json()["ok"], true);
        let found: Vec<_> = files(&node.data()).into_iter().filter(|file| holds(file, SECRET)).collect();
        assert!(found.is_empty(), "still in {found:?}");
        let order = ids(&node.line("history channel/general --type workspace.message --json").ok());
        assert_eq!(order, ["r0", "r1", "r2"]);
    };
    gone(&node);
    node.line("redact r1").ok();
    node.kill();
    node.restart();
    gone(&node);
    node.stop();
    let found: Vec<_> = files(&node.data()).into_iter().filter(|file| holds(file, SECRET)).collect();
    assert!(found.is_empty(), "after a clean stop in {found:?}");
    node.restart();
    gone(&node);
    // Nor does it come back by way of an archive.
    let archive = node.path("archive");
    node.words(&["backup", archive.to_str().unwrap()]).ok();
    assert!(!holds(&archive, SECRET));
    // The same text under another id is another event.
    node.words(&["send", "channel/general", &text, "--as", "alice", "--id", "r3"]).ok();
    assert_eq!(ids(&node.words(&["search", SECRET, "--json"]).ok()), ["r3"]);
}
