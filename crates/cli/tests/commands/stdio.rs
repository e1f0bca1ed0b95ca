//! `stdio`: the relay outlives a node, and speaks nothing but events.

use crate::support::{Node, PATIENCE};
use crate::talk::free_port;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc;

struct Program {
    child: Child,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<Value>,
    heard: Vec<Value>,
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Program {
    fn start(node: &Node) -> Program {
        let mut command = node.command(&["stdio"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (tell, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                tell.send(serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))).ok();
            }
        });
        Program { input: child.stdin.take(), child, lines, heard: Vec::new() }
    }

    fn say(&mut self, event: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{event}").unwrap();
    }

    /// A line that passes; the others are kept.
    fn hear(&mut self, what: &str, passes: impl Fn(&Value) -> bool) -> Value {
        loop {
            if let Some(at) = self.heard.iter().position(&passes) {
                return self.heard.remove(at);
            }
            self.heard.push(self.lines.recv_timeout(PATIENCE).unwrap_or_else(|e| panic!("{what}: {e}")));
        }
    }

    fn answer(&mut self, id: &str) -> Value {
        self.hear(id, |line| line["metadata"]["in_reply_to"] == id)
    }
}

#[test]
fn the_relay_outlives_the_node() {
    let mut node = Node::start_with(&["--listen", &free_port()]);
    let mut program = Program::start(&node);
    program.say(&json!({"id":"j","type":"network.agent.join","source":"agent:prog","target":"core"}));
    assert_eq!(program.answer("j")["payload"]["status"], "accepted");
    program.say(&json!({"id":"p1","type":"my.own.type","target":"channel/general","payload":{"n":1}}));
    assert_eq!(program.answer("p1")["payload"]["duplicate"], false);
    node.line("send prog first --as alice --id m1").ok();
    program.hear("m1", |line| line["id"] == "m1");
    program.say(&json!({"type":"network.event.ack","target":"core","payload":{"ids":["m1"]}}));

    node.kill();
    // Said while there is no node: kept, and answered once there is one again.
    program.say(&json!({"id":"p2","type":"my.own.type","target":"channel/general","payload":{"n":2}}));
    node.restart();
    node.line("send prog second --as alice --id m2").ok();
    assert_eq!(program.answer("p2")["type"], "network.event.ack");
    program.hear("m2", |line| line["id"] == "m2");
    program.say(&json!({"type":"network.event.ack","target":"core","payload":{"ids":["m1","m2"]}}));
    program.say(&json!({"id":"p3","type":"my.own.type","target":"channel/general","payload":{"n":3}}));
    assert_eq!(program.answer("p3")["type"], "network.event.ack");
    let said = crate::ids(&node.line("history --type my.own --json").ok());
    assert_eq!(said, ["p1", "p2", "p3"], "each exactly once");

    program.input = None;
    assert!(program.child.wait().unwrap().success());
    assert_eq!(crate::ids(&node.line("inbox --as prog --json").ok()), Vec::<String>::new());
}

#[test]
fn refusals_are_events_and_end_nothing() {
    let node = Node::start();
    let first = node.typed("stdio", "{\"id\":\"x\",\"type\":\"my.own.type\",\"target\":\"core\"}\n");
    assert!(first.out.contains("join_required"), "{first:?}");
    let join = r#"{"id":"j","type":"network.agent.join","source":"agent:prog","target":"core"}"#;
    let bad = node.typed(
        "stdio",
        &format!("{join}\nthis is not json\n\n{{\"id\":\"y\",\"type\":\"a.b\",\"target\":\"core\"}}\n"),
    );
    let lines = bad.lines();
    assert!(lines.iter().any(|l| l["payload"]["code"] == "invalid_json"), "{bad:?}");
    assert!(lines.iter().any(|l| l["metadata"]["in_reply_to"] == "y"), "{bad:?}");
}
