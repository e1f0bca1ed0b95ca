use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[derive(Deserialize)]
struct Vectors {
    own_network: NetworkId,
    principals: BTreeMap<String, Somebody>,
    truth: Vec<Truth>,
    canonical: Vec<Canonical>,
    refused: Vec<Value>,
}

#[derive(Deserialize)]
struct Somebody {
    #[serde(default)]
    owner: bool,
    role: Option<Role>,
    address: Address,
    groups: Vec<String>,
}

#[derive(Deserialize)]
struct Truth {
    rule: Value,
    passes: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Canonical {
    rule: Value,
    canonical: Value,
}

impl Principal for Somebody {
    fn is_owner(&self) -> bool {
        self.owner
    }
    fn role(&self) -> Option<Role> {
        self.role
    }
    fn is(&self, address: &Address) -> bool {
        self.address == *address
    }
    fn in_group(&self, name: &str) -> bool {
        self.groups.iter().any(|g| g == name)
    }
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../../../vectors/access.json")).unwrap()
}

fn own() -> NetworkId {
    vectors().own_network
}

fn rule(value: Value) -> Rule {
    Rule::from_json(&value).unwrap()
}

#[test]
fn the_truth_table() {
    let vectors = vectors();
    assert_eq!((vectors.truth.len(), vectors.principals.len()), (14, 7));
    for row in &vectors.truth {
        let rule = Rule::from_json_in(&row.rule, &vectors.own_network).unwrap_or_else(|e| panic!("{}: {e}", row.rule));
        let passes: BTreeSet<_> =
            vectors.principals.iter().filter(|(_, who)| rule.allows(*who)).map(|(name, _)| name.clone()).collect();
        assert_eq!(passes, row.passes, "{}", row.rule);
    }
}

#[test]
fn canonical_forms() {
    let vectors = vectors();
    assert_eq!(vectors.canonical.len(), 15);
    for row in &vectors.canonical {
        let rule = Rule::from_json_in(&row.rule, &vectors.own_network).unwrap_or_else(|e| panic!("{}: {e}", row.rule));
        assert_eq!(rule.to_json(), row.canonical, "{}", row.rule);
        assert_eq!(serde_json::to_value(&rule).unwrap(), row.canonical);
        assert_eq!(Rule::from_json(&row.canonical).unwrap(), rule);
    }
}

#[test]
fn malformed_rules_are_refused() {
    let vectors = vectors();
    assert_eq!(vectors.refused.len(), 49);
    for value in &vectors.refused {
        let error = Rule::from_json_in(value, &vectors.own_network).expect_err(&value.to_string());
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{value}");
        assert!(error.to_string().len() < 300, "{error}");
        assert!(serde_json::from_value::<Rule>(value.clone()).is_err());
    }
}

#[test]
fn a_rule_names_only_so_many() {
    let names = |n: usize| (0..n).map(|i| format!("agent:a{i}")).collect::<Vec<_>>();
    let full = names(RULE_TERMS_MAX);
    let more = names(RULE_TERMS_MAX + 1);
    let text = |names: &[String]| format!("agents:[{}]", names.join(","));
    assert!(Rule::from_json(&json!(full)).is_ok());
    assert!(Rule::from_json(&json!(text(&full))).is_ok());
    assert!(Rule::from_json(&json!([text(&names(100)), text(&names(RULE_TERMS_MAX - 100))])).is_ok());
    assert_eq!(Rule::from_json(&json!(more)), Err(RuleError::TooMany));
    assert_eq!(Rule::from_json(&json!(text(&more))), Err(RuleError::TooMany));
    assert_eq!(text(&more).parse::<Rule>(), Err(RuleError::TooMany));
    assert_eq!(
        Rule::from_json(&json!([text(&names(100)), text(&names(RULE_TERMS_MAX - 99))])),
        Err(RuleError::TooMany)
    );
    // Saying the same thing again costs too: the bound is on what is read, not on what is left.
    assert_eq!(Rule::from_json(&json!(vec!["network"; RULE_TERMS_MAX + 1])), Err(RuleError::TooMany));
}

#[test]
fn rules_are_also_read_from_text() {
    for text in ["network", "agents:[agent:b, human:ana]", r#"["agent:b","group/g"]"#] {
        assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
    }
    assert_eq!("[]".parse::<Rule>().unwrap(), Rule::none());
    assert_eq!("[".parse::<Rule>(), Err(RuleError::NotText));
    assert_eq!("agent:b".parse::<Rule>(), Err(RuleError::Unknown));
    assert!(rule(json!(["role:observer", "network"])).is_network());
    assert!(!Rule::owner().is_network());
}

#[test]
fn defaults() {
    let wanted = json!({"read": "network", "write": "owner", "invoke": "network", "admin": "owner"});
    assert_eq!(serde_json::to_value(Permissions::default()).unwrap(), wanted);
    assert_eq!(serde_json::from_str::<Permissions>("{}").unwrap(), Permissions::default());
    let free = json!({"read": "network", "write": "network", "invoke": "network", "admin": "owner"});
    assert_eq!(serde_json::to_value(Permissions::unguarded()).unwrap(), free);
}

#[test]
fn operations_by_kind() {
    let of = |kind| -> Vec<_> {
        Operation::ALL.into_iter().filter(|op| op.applies_to(kind)).map(Operation::as_str).collect()
    };
    assert_eq!(of(ResourceKind::Tool), ["read", "invoke", "admin"]);
    assert_eq!(of(ResourceKind::File), ["read", "write", "admin"]);
    assert_eq!(of(ResourceKind::Context), ["read", "write", "admin"]);
    let shown = serde_json::to_value(Permissions::default().view(ResourceKind::Tool)).unwrap();
    assert_eq!(shown, json!({"read": "network", "invoke": "network", "admin": "owner"}));
    let shown = serde_json::to_value(Permissions::default().view(ResourceKind::File)).unwrap();
    assert_eq!(shown, json!({"read": "network", "write": "owner", "admin": "owner"}));
}

#[test]
fn your_permissions_by_kind_and_caller() {
    let vectors = vectors();
    let permissions = |value: Value| Permissions::default().merged(&value, None, &own(), "p").unwrap();
    let granted = |p: &Permissions, kind, who: &str| -> Vec<_> {
        p.granted(kind, &vectors.principals[who]).into_iter().map(Operation::as_str).collect()
    };
    let p = Permissions::default();
    assert_eq!(granted(&p, ResourceKind::Tool, "owner"), ["read", "invoke", "admin"]);
    assert_eq!(granted(&p, ResourceKind::File, "owner"), ["read", "write", "admin"]);
    assert_eq!(granted(&p, ResourceKind::Tool, "member_b"), ["read", "invoke"]);
    assert_eq!(granted(&p, ResourceKind::Context, "observer"), ["read"]);
    assert!(granted(&p, ResourceKind::Tool, "stranger").is_empty());
    // One by one: whoever may not read may still invoke, and whoever writes need not administer.
    let p = permissions(
        json!({"read": "none", "invoke": "group/g", "write": "agents:[agent:b]", "admin": ["role:master", "agent:b"]}),
    );
    assert_eq!(granted(&p, ResourceKind::Tool, "member_in_g"), ["invoke"]);
    assert_eq!(granted(&p, ResourceKind::File, "member_in_g"), [""; 0]);
    assert_eq!(granted(&p, ResourceKind::File, "member_b"), ["write", "admin"]);
    assert_eq!(granted(&p, ResourceKind::Tool, "member_b"), ["admin"]);
    assert_eq!(granted(&p, ResourceKind::Tool, "master"), ["admin"]);
    assert_eq!(granted(&p, ResourceKind::Tool, "owner"), ["read", "invoke", "admin"]);
}

#[test]
fn permissions_are_merged_and_name_the_field_that_is_wrong() {
    let defaults = Permissions::default();
    let merge =
        |value: &Value, kind| defaults.merged(value, kind, &own(), "payload.permissions").map(|p| p.to_json_all());
    let ok = |value: Value, kind| merge(&value, Some(kind)).unwrap();
    assert_eq!(ok(json!({}), ResourceKind::Tool), defaults.to_json_all());
    assert_eq!(
        ok(json!({"read": ["agent:b", "group/g"], "write": "role:member"}), ResourceKind::File),
        json!({"read": ["agent:b", "group/g"], "write": "role:member", "invoke": "network", "admin": "owner"})
    );
    let first = defaults.merged(&json!({"read": "none"}), Some(ResourceKind::Tool), &own(), "p").unwrap();
    let second = first.merged(&json!({"invoke": []}), Some(ResourceKind::Tool), &own(), "p").unwrap();
    assert_eq!((second.read, second.invoke), (Rule::none(), Rule::none()), "what is left out stays");

    for (value, kind, field) in [
        (json!({"write": "owner"}), Some(ResourceKind::Tool), "payload.permissions.write"),
        (json!({"invoke": "network"}), Some(ResourceKind::File), "payload.permissions.invoke"),
        (json!({"invoke": "network"}), Some(ResourceKind::Context), "payload.permissions.invoke"),
        (json!({"read": "role:boss"}), Some(ResourceKind::Tool), "payload.permissions.read"),
        (json!({"admin": null}), None, "payload.permissions.admin"),
        (json!({"execute": "owner"}), None, "payload.permissions.execute"),
        (json!("network"), None, "payload.permissions"),
        (json!(null), Some(ResourceKind::File), "payload.permissions"),
        (json!([]), None, "payload.permissions"),
    ] {
        let fault = merge(&value, kind).expect_err(&value.to_string());
        assert_eq!(fault.code, ErrorCode::InvalidArgument, "{value}");
        assert_eq!(fault.details.as_deref(), Some(&json!({"field": field})), "{value}");
        assert!(fault.message.starts_with(field), "{}", fault.message);
    }
    assert!(merge(&json!({"write": "owner", "invoke": "none"}), None).is_ok(), "a network's defaults name all four");
}

#[test]
fn a_rename_goes_into_the_rules() {
    let [b, c] = ["agent:b", "agent:c"].map(|a| Address::parse(a).unwrap());
    for (before, after) in [
        (json!("agents:[agent:b, human:ana]"), json!("agents:[agent:c, human:ana]")),
        (json!("agents:[agent:b, agent:c]"), json!("agents:[agent:c]")),
        (json!(["agent:b", "group/b"]), json!(["agent:c", "group/b"])),
        (json!(["agent:b", "agent:c"]), json!("agents:[agent:c]")),
    ] {
        assert_eq!(rule(before).renamed(&b, &c).unwrap().to_json(), after);
    }
    assert_eq!(rule(json!(["network", "group/b"])).renamed(&b, &c), None);
    let p = Permissions { read: rule(json!("agents:[agent:b]")), ..Permissions::default() };
    let renamed = p.renamed(&b, &c).unwrap();
    assert_eq!(renamed, Permissions { read: rule(json!("agents:[agent:c]")), ..Permissions::default() });
    assert_eq!(renamed.renamed(&b, &c), None);
}

impl Permissions {
    fn to_json_all(&self) -> Value {
        serde_json::to_value(self).unwrap()
    }
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("network".to_owned()),
        Just("owner".to_owned()),
        Just("none".to_owned()),
        "role:(master|member|observer|boss)",
        "group/[a-z ]{0,3}",
        "(agent:|human:|key:|local::|x::|channel/)?[a-c]{1,2}",
        "agents:\\[((agent:|human:)?[a-c]( ?, ?)?){0,4}\\]?",
        any::<String>(),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        word().prop_map(Value::from),
        prop::collection::vec(word(), 0..5).prop_map(Value::from),
        prop::collection::vec(prop_oneof![word().prop_map(Value::from), Just(json!(1)), Just(json!([]))], 0..4)
            .prop_map(Value::from),
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
    ]
}

proptest! {
    #[test]
    fn what_parses_is_canonical_and_round_trips(value in value()) {
        let Ok(rule) = Rule::from_json(&value) else { return Ok(()) };
        let canonical = rule.to_json();
        prop_assert_eq!(&Rule::from_json(&canonical).unwrap(), &rule);
        prop_assert_eq!(&Rule::from_json(&canonical).unwrap().to_json(), &canonical);
        prop_assert_eq!(&rule.to_string().parse::<Rule>().unwrap(), &rule);
        prop_assert_eq!(&serde_json::from_str::<Rule>(&serde_json::to_string(&rule).unwrap()).unwrap(), &rule);
        prop_assert_eq!(&Rule::from_json_in(&canonical, &own()).unwrap(), &rule);
        if let Some(items) = canonical.as_array() {
            let texts: Vec<_> = items.iter().map(|i| i.as_str().unwrap()).collect();
            prop_assert!(texts.len() > 1 && texts.is_sorted_by(|a, b| a < b), "{texts:?}");
        }
    }

    /// The order and the number of times something is said change nothing.
    #[test]
    fn order_and_repetition_do_not_matter(words in prop::collection::vec(word(), 0..5), turn in 0usize..5) {
        let Ok(rule) = Rule::from_json(&json!(words)) else { return Ok(()) };
        let mut turned = words.clone();
        turned.rotate_left(turn.min(words.len()));
        turned.extend(words);
        prop_assert_eq!(Rule::from_json(&json!(turned)).unwrap(), rule);
    }

    /// An array lets pass whoever one of its elements lets pass, and every rule the owner; no rule lets a stranger.
    #[test]
    fn an_array_is_the_or_of_its_elements(words in prop::collection::vec(word(), 0..5)) {
        let Ok(rule) = Rule::from_json(&json!(words)) else { return Ok(()) };
        for (name, who) in vectors().principals {
            let any = words.iter().any(|word| Rule::from_json(&json!([word])).unwrap().allows(&who));
            prop_assert_eq!(rule.allows(&who), any || who.owner, "{}", name);
            prop_assert!(who.role.is_some() || !rule.allows(&who));
        }
    }

    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        let _ = text.parse::<Rule>();
        let _ = Rule::from_json(&json!([&text, format!("agents:[{text}]"), format!("group/{text}"), format!("role:{text}")]));
        let _ = Permissions::default().merged(&json!({ text: "owner" }), None, &own(), "permissions");
    }
}
