//! `mod …`: list, show, load, set, order, enable, unload; the configuration file's mods; what analytics tells whom.

use crate::support::http::Http;
use crate::support::{Node, Ran};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The pipeline as `name:priority`.
fn pipeline(node: &Node) -> String {
    let list = node.line("mod list --json").ok().json();
    let mods = list["mods"].as_array().unwrap().iter();
    mods.map(|m| format!("{}:{}", m["name"].as_str().unwrap(), m["priority"])).collect::<Vec<_>>().join(" ")
}

/// One setting as `mod show` tells it.
fn setting(ran: &Ran, name: &str) -> Value {
    let shown = ran.json();
    let settings = shown["settings"].as_array().unwrap_or_else(|| panic!("{shown}"));
    settings.iter().find(|s| s["name"] == name).unwrap_or_else(|| panic!("{shown}"))["value"].clone()
}

#[test]
fn a_mod_from_its_loading_to_its_end() {
    let node = Node::start();
    assert_eq!(pipeline(&node), "auth:0 access-control:20 workspace:50 persistence:90");
    node.words(&["mod", "load", "rate-limiter", "burst=2", "--settings", r#"{"rate": 0.001}"#]).ok();
    node.line("mod load rate-limiter").fails(5, "`rialto mod set` changes it");
    assert_eq!(pipeline(&node), "auth:0 rate-limiter:10 access-control:20 workspace:50 persistence:90");
    let list = node.line("mod list").ok().out;
    assert!(list.contains("guard") && list.contains("rate-limiter") && list.contains("burst"), "{list}");

    // It works at once, rests when told to, and stands where it is put.
    let say = || node.line("send channel/general hi --as bob");
    while say().code == 0 {}
    say().fails(6, "rate_limited");
    assert!(node.line("mod disable mod/rate-limiter").ok().out.contains("disabled"));
    say().ok();
    node.line("mod enable rate-limiter").ok();
    say().fails(6, "rate_limited");
    assert_eq!(
        node.line("mod order guard rate-limiter auth").ok().out.trim(),
        "mod/rate-limiter, mod/auth, mod/access-control"
    );
    assert_eq!(pipeline(&node), "rate-limiter:0 auth:10 access-control:20 workspace:50 persistence:90");
    node.line("mod order guard persistence").fails(2, "observe");
    node.line("mod order guard mystery").fails(3, "mod list");

    // Settings change one by one, and go back.
    node.words(&["mod", "set", "rate-limiter", "burst=1000", "exempt=[\"x.*\"]", "--priority", "5"]).ok();
    let shown = node.line("mod show rate-limiter --json").ok();
    assert_eq!((setting(&shown, "burst"), setting(&shown, "rate")), (json!(1000), json!(0.001)));
    assert_eq!((&shown.json()["priority"], &shown.json()["mode"]), (&json!(5), &json!("guard")));
    node.words(&["mod", "set", "rate-limiter", "exempt=", "rate="]).ok();
    let shown = node.line("mod show rate-limiter --json").ok();
    assert_eq!((setting(&shown, "rate"), setting(&shown, "burst")), (json!(20), json!(1000)));
    say().ok();
    for (word, said) in [("brust=1", "no such setting; it has rate, burst"), ("rate=fast", "expected a number")] {
        node.words(&["mod", "set", "rate-limiter", word]).fails(2, said);
    }
    let shown = node.line("mod show persistence").ok().out;
    assert!(shown.contains("retention_days") && shown.contains("for ever"), "{shown}");

    node.line("mod unload rate-limiter").ok();
    for verb in ["show", "unload", "enable", "disable"] {
        node.words(&["mod", verb, "rate-limiter"]).fails(3, "mod list");
    }
    node.line("mod set rate-limiter rate=1").fails(3, "mod list");
    node.line("mod load mystery").fails(3, "there are auth, rate-limiter");
    node.line("mod show Auth").fails(2, "");
}

#[test]
fn mods_are_the_operators_and_outlive_a_restart() {
    let mut node = Node::start();
    node.line("mod load analytics").ok();
    node.line("mod order observe analytics").ok();
    let mut afar = crate::support::rialto();
    afar.args(["mod", "list", "--url", node.url()]).env("RIALTO_TOKEN", &node.token);
    afar.env("RIALTO_DATA", node.path("elsewhere"));
    assert_eq!(Ran::of(afar, "").code, 4);
    node.kill();
    node.restart();
    assert_eq!(pipeline(&node), "auth:0 access-control:20 workspace:50 analytics:0 persistence:10");
}

#[test]
fn the_configuration_file_loads_and_sets_mods() {
    let dir = TempDir::new().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("rialto.toml"));
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write(
        "[mods]\nload = [\"rate-limiter\", \"analytics\"]\n\
        [mod.rate-limiter]\nburst = 7\npriority = -5\n[mod.enrichment]\ntrace = false\n",
    );
    let mut node = Node::start_in(dir, &data, &["--config", file.to_str().unwrap()]);
    assert_eq!(pipeline(&node), "rate-limiter:-5 auth:0 access-control:20 workspace:50 persistence:90 analytics:100");
    assert_eq!(setting(&node.line("mod show rate-limiter --json").ok(), "burst"), 7);
    assert!(node.log().contains("mod.enrichment is set, but the mod is not loaded"), "{}", node.log());

    // What was changed meanwhile stays, but for what the file says; nothing is written when nothing differs.
    node.words(&["mod", "set", "rate-limiter", "burst=9", "rate=3"]).ok();
    node.line("mod unload analytics").ok();
    node.stop();
    node.restart();
    let shown = node.line("mod show rate-limiter --json").ok();
    assert_eq!((setting(&shown, "burst"), setting(&shown, "rate")), (json!(7), json!(3)));
    let revision = node.line("mod list --json").ok().json()["revision"].clone();
    node.stop();
    node.restart();
    let list = node.line("mod list --json").ok().json();
    assert_eq!((&list["revision"], list["mods"].as_array().unwrap().len()), (&revision, 6));

    node.stop();
    write("[mod.rate-limiter]\nbrust = 7\n");
    let mut command = node.command(&["up", "--listen", "127.0.0.1:0", "--config"]);
    command.arg(&file);
    Ran::of(command, "").fails(2, "did you mean burst?");
}

#[tokio::test]
async fn analytics_for_members_and_names_in_metrics_for_the_operator() {
    let node = Node::start();
    let http = Http::new(node.url());
    let path = "/v1/analytics";
    let metrics = |http: Http, bearer: String| async move { http.get("/metrics", &bearer).await.body };
    assert_eq!(http.get(path, node.admin()).await.code(), "mod_not_found");
    assert!(!metrics(http.clone(), node.admin().to_owned()).await.contains("rialto_analytics"));
    node.line("mod load analytics").ok();
    node.line("send channel/general secret-words --as bob").ok();
    node.line("send nobody hi --as bob").fails(3, "unknown_target");
    for path in [path.to_owned(), format!("/v1/ws/{}/analytics", node.network())] {
        let report = http.get(&path, &node.token).await.data();
        let total = &report["total"];
        assert_eq!(total["by_mod"], json!([{ "mod": "core", "events": 1 }]), "{report}");
        let posted = |list: &str, label: &str, name: &str| {
            let rows = total[list].as_array().unwrap();
            rows.iter().find(|row| row[label] == name).map(|row| row["events"].clone())
        };
        assert_eq!(posted("by_type", "type", "workspace.message.posted"), Some(json!(1)), "{report}");
        assert_eq!(posted("by_target", "target", "channel"), Some(json!(1)), "{report}");
        assert!(posted("by_source", "source", "agent:bob").is_some(), "{report}");
        assert!(!report.to_string().contains("secret-words"));
    }
    assert_eq!(http.get(path, "wrong-token-0123456789").await.status, 401);
    let (all, own) = (metrics(http.clone(), String::new()).await, metrics(http.clone(), node.admin().to_owned()).await);
    let network = node.network();
    for line in [
        format!("rialto_analytics_events_total{{network=\"{network}\",target=\"channel\"}} 1"),
        format!("rialto_analytics_rejections_total{{network=\"{network}\",mod=\"core\"}} 1"),
    ] {
        assert!(all.contains(&line) && own.contains(&line), "{line}\n{all}");
    }
    let named = format!("rialto_analytics_type_events{{network=\"{network}\",type=\"workspace.message.posted\"}} 1");
    assert!(own.contains(&named) && own.contains("source=\"agent:bob\""), "{own}");
    assert!(!all.contains("workspace.message.posted") && !all.contains("agent:bob"), "{all}");
    // A call of strangers changes nothing.
    let order = http.post(&format!("/v1/admin/networks/{network}/mods/order"), &node.token, &json!({})).await;
    assert!(order.status == 401 || order.status == 403, "{order:?}");
    for (body, field) in [(json!({}), "names"), (json!({ "names": ["auth"], "mode": "x" }), "mode")] {
        let path = format!("/v1/admin/networks/{network}/mods/order");
        let answer = http.post(&path, node.admin(), &body).await;
        assert_eq!((answer.status, &answer.json()["error"]["details"]["field"]), (400, &json!(field)), "{answer:?}");
    }
}
