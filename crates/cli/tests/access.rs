//! The sheet's table of access rules on every carrier: every rule, every principal, every operation.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::wildcard_enum_match_arm, unreachable_pub, reason = "tests")]

mod support;

use rialto_sim::contract::{Carrier, Draft, Member};
use serde_json::{Value, json};
use support::Node;
use support::http::Http;

const CARRIERS: [Carrier; 4] = [Carrier::HttpInbox, Carrier::WebSocket, Carrier::GrpcUnary, Carrier::GrpcConnect];
const PEOPLE: [&str; 5] = ["owner", "master", "grouped", "named", "observer"];

/// Who of [`PEOPLE`] a rule admits; `{named}` stands for the address of one of them.
const RULES: [(&str, [bool; 5]); 8] = [
    (r#""network""#, [true, true, true, true, true]),
    (r#""role:master""#, [true, true, false, false, false]),
    (r#""role:member""#, [true, false, true, true, false]),
    (r#""group/{group}""#, [true, false, true, false, false]),
    (r#""agents:[{named}, human:ana]""#, [true, false, false, true, false]),
    (r#"["group/{group}", "{named}"]"#, [true, false, true, true, false]),
    (r#""owner""#, [true, false, false, false, false]),
    ("[]", [true, false, false, false, false]),
];

struct Scene {
    people: Vec<Member>,
    sent: u32,
}

impl Scene {
    async fn set(node: &Node, n: usize, carrier: Carrier) -> Scene {
        let place = node.place();
        let mut people = Vec::new();
        for who in PEOPLE {
            let role = if who == "observer" { "observer" } else { "member" };
            people.push(Member::join_as(&place, carrier, &format!("{who}-{n}"), role).await.unwrap());
        }
        let (http, network) = (Http::new(node.url()), node.network());
        for (who, role) in [("owner", "member"), ("master", "master")] {
            let path = format!("/v1/admin/networks/{network}/members/agent:{who}-{n}");
            let set = http.call("PATCH", &path, node.admin(), &json!({ "role": role }).to_string()).await.unwrap();
            assert_eq!(set.status, 200, "{}", set.body);
        }
        node.line(&format!("group set g{n} agent:grouped-{n}")).ok();
        Scene { people, sent: 0 }
    }

    /// What comes of an act: `ok`, or the code it is refused with.
    async fn act(&mut self, who: usize, kind: &'static str, target: &str, payload: &Value) -> String {
        self.sent += 1;
        let member = &mut self.people[who];
        let id = format!("{}-{}", member.address.trim_start_matches("agent:"), self.sent);
        match member.send(&Draft { kind, ..Draft::note(&id, target, &payload.to_string()) }).await.unwrap() {
            Ok(_) => "ok".to_owned(),
            Err(refused) => refused.code,
        }
    }

    /// A file and a tool of the owner's under a rule.
    async fn register(&mut self, name: &str, file: Value, tool: Value) {
        let file = json!({ "address": format!("resource/file/{name}"), "content": "hi", "permissions": file });
        let tool = json!({ "address": format!("resource/tool/{name}"), "permissions": tool });
        for payload in [file, tool] {
            assert_eq!(self.act(0, "network.resource.register", "core", &payload).await, "ok", "{payload}");
        }
    }
}

#[tokio::test]
async fn every_rule_for_everybody_on_every_carrier() {
    let node = Node::start();
    if !node.line("mod list").ok().out.contains("access-control") {
        node.line("mod load access-control").ok();
    }
    for (n, carrier) in CARRIERS.into_iter().enumerate() {
        let mut scene = Scene::set(&node, n, carrier).await;
        for (r, (rule, admits)) in RULES.into_iter().enumerate() {
            let text = rule.replace("{group}", &format!("g{n}")).replace("{named}", &format!("agent:named-{n}"));
            let rule: Value = serde_json::from_str(&text).unwrap();
            // Where reading is for few, the others do not hear of it; where only more than reading is, they do.
            let hidden = format!("hidden-{n}-{r}");
            let file = json!({ "read": rule, "write": rule });
            scene.register(&hidden, file, json!({ "read": rule, "invoke": rule })).await;
            let shown = format!("shown-{n}-{r}");
            scene.register(&shown, json!({ "write": rule }), json!({ "invoke": rule })).await;
            for (who, may) in admits.into_iter().enumerate() {
                let said = format!("{carrier:?}: {text} for {}", PEOPLE[who]);
                let observer = PEOPLE[who] == "observer";
                for (name, no) in [(&hidden, "resource_not_found"), (&shown, "permission_denied")] {
                    let (file, tool) = (format!("resource/file/{name}"), format!("resource/tool/{name}"));
                    let may_read = may || name == &shown;
                    let want = if may_read { "ok" } else { no };
                    let read = scene.act(who, "network.resource.read", &file, &json!({})).await;
                    assert_eq!(read, want, "read {name}, {said}");
                    let want = match (observer, may) {
                        (true, _) => "observer_read_only",
                        (false, true) => "ok",
                        (false, false) => no,
                    };
                    let more = json!({ "content": "more" });
                    let written = scene.act(who, "network.resource.update", &file, &more).await;
                    assert_eq!(written, want, "write {name}, {said}");
                    let called = scene.act(who, "network.resource.invoke", &tool, &json!({})).await;
                    // Nobody calls its own tool.
                    let want = if who == 0 { "invalid_argument" } else { want };
                    assert_eq!(called, want, "invoke {name}, {said}");
                    // Administering stays with the owner, unless the rule for that says otherwise.
                    let describe = json!({ "description": "mine" });
                    let want = match (observer, who) {
                        (true, _) => "observer_read_only",
                        (false, 0) => "ok",
                        (false, _) if may_read => "permission_denied",
                        (false, _) => no,
                    };
                    let described = scene.act(who, "network.resource.update", &file, &describe).await;
                    assert_eq!(described, want, "administer {name}, {said}");
                }
            }
        }
    }
}
