//! Strangers' schemas and strangers' payloads: the right answers, and every one of them in a bound.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "the helpers of a test fail as the test does, and print what was measured"
)]

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use rialto_model::limits::PAYLOAD_DEPTH_MAX;
use rialto_model::{ErrorCode, Fault};
use rialto_node::schema::limits::{
    SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX, SCHEMA_ERROR_CHARS_MAX, SCHEMA_ERRORS_MAX, SCHEMA_NODES_MAX,
    SCHEMA_PATTERN_STATES_MAX, SCHEMA_PATTERNS_MAX, SCHEMA_PAYLOAD_STEPS_MAX, SCHEMA_REFS_MAX, SCHEMA_STACK_MAX,
    SCHEMA_STEPS_MAX, SCHEMAS_CACHED_MAX,
};
use rialto_node::schema::{Schema, Validators};
use serde_json::{Map, Value, json};

/// Ten times what the worst case below takes in a debug build on a busy machine: only something unbounded is slower.
const BOUND: Duration = Duration::from_secs(20);

fn within<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let out = work();
    println!("{what}: {:?}", start.elapsed());
    assert!(start.elapsed() < BOUND, "{what} took {:?}", start.elapsed());
    out
}

fn schema(value: &Value) -> Schema {
    Schema::compile(&value.to_string()).unwrap_or_else(|e| panic!("{value}: {e}"))
}

/// Refused at registration; gives the path that the refusal names and its text.
fn refused(value: &Value) -> (String, String) {
    let fault = within("refusing", || Schema::check(&value.to_string())).expect_err(&value.to_string());
    assert_eq!(fault.code, ErrorCode::InvalidArgument, "{fault}");
    let details = fault.details.unwrap();
    assert_eq!(details["field"], "schema");
    (details["path"].as_str().unwrap().to_owned(), fault.message)
}

fn code(result: Result<(), Fault>) -> Option<ErrorCode> {
    result.err().map(|fault| fault.code)
}

fn errors(fault: &Fault) -> Vec<(String, String)> {
    assert_eq!(fault.code, ErrorCode::InvalidPayload);
    let errors = fault.details.as_ref().unwrap()["errors"].as_array().unwrap();
    let text = |error: &Value, key: &str| error[key].as_str().unwrap().to_owned();
    errors.iter().map(|error| (text(error, "path"), text(error, "message"))).collect()
}

#[test]
fn payloads_by_keyword() {
    for (rules, good, bad) in [
        (json!({"type": "object"}), json!({}), json!([])),
        (json!({"required": ["q"]}), json!({"q": null}), json!({})),
        (json!({"properties": {"n": {"type": "integer", "minimum": 1}}}), json!({"n": 1.0}), json!({"n": 0})),
        (json!({"additionalProperties": false, "properties": {"a": true}}), json!({"a": 1}), json!({"b": 1})),
        (json!({"patternProperties": {"^x-": {"type": "string"}}}), json!({"x-a": ""}), json!({"x-a": 1})),
        (json!({"propertyNames": {"maxLength": 2}}), json!({"ab": 1}), json!({"abc": 1})),
        (json!({"properties": {"e": {"enum": ["a", 1, null]}}}), json!({"e": null}), json!({"e": "b"})),
        (json!({"properties": {"c": {"const": {"a": [1]}}}}), json!({"c": {"a": [1]}}), json!({"c": {"a": [2]}})),
        (json!({"properties": {"p": {"pattern": "^\\d+$"}}}), json!({"p": "12"}), json!({"p": "1x"})),
        (
            json!({"properties": {"l": {"prefixItems": [{"type": "string"}], "items": {"type": "number"}}}}),
            json!({"l": ["a", 1]}),
            json!({"l": ["a", "b"]}),
        ),
        (json!({"properties": {"u": {"uniqueItems": true}}}), json!({"u": [1, 2]}), json!({"u": [1, 1.0]})),
        (json!({"properties": {"c": {"contains": {"const": 1}}}}), json!({"c": [0, 1]}), json!({"c": [0]})),
        (json!({"dependentRequired": {"a": ["b"]}}), json!({"a": 1, "b": 1}), json!({"a": 1})),
        (json!({"dependentSchemas": {"a": {"required": ["b"]}}}), json!({"b": 1}), json!({"a": 1})),
        (json!({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}), json!({"b": 1}), json!({})),
        (json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}), json!({"b": 1}), json!({"a": 1, "b": 1})),
        (json!({"not": {"required": ["a"]}}), json!({"b": 1}), json!({"a": 1})),
        (
            json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}}),
            json!({"a": 1, "b": 1}),
            json!({"b": 1}),
        ),
        (
            json!({"allOf": [{"properties": {"a": true}}], "unevaluatedProperties": false}),
            json!({"a": 1}),
            json!({"b": 1}),
        ),
        (json!({"$ref": "#/$defs/x", "$defs": {"x": {"required": ["a"]}}}), json!({"a": 1}), json!({})),
        (
            json!({"$ref": "#/definitions/a%20b~1c", "definitions": {"a b/c": {"required": ["a"]}}}),
            json!({"a": 1}),
            json!({}),
        ),
        (json!({"$ref": "#here", "$defs": {"x": {"$anchor": "here", "required": ["a"]}}}), json!({"a": 1}), json!({})),
        (
            json!({"properties": {"next": {"$ref": "#"}}, "required": ["v"]}),
            json!({"v": 1, "next": {"v": 2}}),
            json!({"v": 1, "next": {}}),
        ),
        (json!({"$schema": "http://json-schema.org/draft-07/schema#", "required": ["a"]}), json!({"a": 1}), json!({})),
        (
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.org/x", "required": ["a"]}),
            json!({"a": 1}),
            json!({}),
        ),
        (
            json!({"properties": {"d": {"format": "email"}}, "required": ["d"]}),
            json!({"d": "formats are notes"}),
            json!({}),
        ),
    ] {
        let schema = schema(&rules);
        assert_eq!(schema.validate(&good.to_string()), Ok(()), "{rules} {good}");
        assert_eq!(code(schema.validate(&bad.to_string())), Some(ErrorCode::InvalidPayload), "{rules} {bad}");
    }
    assert_eq!(Schema::compile("true").unwrap().validate("{}"), Ok(()));
    assert!(Schema::compile("false").unwrap().validate("{}").is_err());
    assert_eq!(Schema::compile("{}").unwrap().validate("{\"a\":[]}"), Ok(()));
    assert_eq!(code(Schema::compile("{}").unwrap().validate("{")), Some(ErrorCode::InvalidPayload));
}

#[test]
fn the_short_form() {
    let all = schema(
        &json!({"s": "string", "n": "number", "i": "integer", "b": "boolean", "a": "array", "o": "object", "x": "any", "m": "string?"}),
    );
    let full = json!({"s": "", "n": 0.5, "i": 1, "b": true, "a": [], "o": {}, "x": null, "other": 1});
    assert_eq!(all.validate(&full.to_string()), Ok(()));
    for (name, wrong) in [
        ("s", json!(1)),
        ("n", json!("")),
        ("i", json!(0.5)),
        ("b", json!(0)),
        ("a", json!({})),
        ("o", json!([])),
        ("m", json!(1)),
    ] {
        let mut payload = full.clone();
        payload[name] = wrong;
        let fault = all.validate(&payload.to_string()).unwrap_err();
        assert_eq!(errors(&fault)[0].0, format!("/{name}"), "{fault}");
    }
    for name in ["s", "n", "i", "b", "a", "o", "x"] {
        let mut payload = full.clone();
        payload.as_object_mut().unwrap().remove(name);
        assert!(all.validate(&payload.to_string()).is_err(), "{name} is required");
    }
    // Arguments called like keywords are arguments, unless all together is a schema of some type.
    assert!(schema(&json!({"title": "string", "description": "string?"})).validate("{}").is_err());
    assert!(schema(&json!({"type": "string?"})).validate("{}").is_ok());
    assert!(schema(&json!({"type": "string", "query": "string"})).validate(r#"{"type":"a","query":"b"}"#).is_ok());
    assert!(schema(&json!({"type": "object", "title": "string"})).validate("{}").is_ok());
    assert_eq!(refused(&json!({"query": "string", "limit": "int"})).0, "/query");
    assert_eq!(refused(&json!({"query": "string", "limit": {"type": "integer"}})).0, "/query");
}

#[test]
fn schemas_that_are_refused() {
    let nested = |n: usize| (0..n).fold(json!({}), |inner, _| json!({ "not": inner }));
    for (rules, path, word) in [
        (json!(5), "", "object"),
        (json!([]), "", "object"),
        (json!("string"), "", "object"),
        (json!({"type": "strin"}), "/type", ""),
        (json!({"properties": []}), "/properties", "object"),
        (json!({"allOf": {}}), "/allOf", "list"),
        (json!({"properties": {"a": 5}}), "/properties/a", "object"),
        (json!({"minLength": -1}), "/minLength", ""),
        (json!({"$ref": "https://example.org/schema"}), "/$ref", "fetched"),
        (json!({"$ref": "other.json#/x"}), "/$ref", "fetched"),
        (json!({"$ref": "file:///etc/passwd"}), "/$ref", "fetched"),
        (json!({"$defs": {"unused": {"$ref": "http://127.0.0.1:1/x"}}}), "/$defs/unused/$ref", "fetched"),
        (json!({"$ref": "#/nowhere"}), "/$ref", "nothing"),
        (json!({"$ref": "#nobody"}), "/$ref", "anchor"),
        (json!({"$ref": "#/%zz"}), "/$ref", "%"),
        (json!({"$ref": 5}), "/$ref", ""),
        (json!({"$ref": "#/title", "title": "x"}), "/title", "object"),
        (json!({"$dynamicRef": "#x"}), "/$dynamicRef", "not supported"),
        (json!({"$recursiveRef": "#"}), "/$recursiveRef", "not supported"),
        (json!({"not": {"$id": "https://example.org/x"}}), "/not/$id", "top"),
        (json!({"not": {"$schema": "https://json-schema.org/draft/2020-12/schema"}}), "/not/$schema", "top"),
        (json!({"$schema": "https://example.org/mine"}), "/$schema", "2020-12"),
        (json!({"dependencies": {}}), "/dependencies", "dependentRequired"),
        (json!({"items": [{}]}), "/items", "object"),
        (json!({"items": {}, "additionalItems": {}}), "/additionalItems", "prefixItems"),
        (json!({"pattern": "("}), "/pattern", "regular"),
        (json!({"pattern": "(?=a)"}), "/pattern", "linear"),
        (json!({"pattern": "(a)\\1"}), "/pattern", "linear"),
        (json!({"patternProperties": {"(?!x)": {}}}), "/patternProperties", "linear"),
        (json!({"$ref": "#"}), "", "itself"),
        (json!({"allOf": [{"$ref": "#"}]}), "", "itself"),
        (
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}}),
            "",
            "itself",
        ),
        (json!({"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}), "/$defs/b/$anchor", "twice"),
        (nested(SCHEMA_DEPTH_MAX), "", "deep"),
    ] {
        let (at, message) = refused(&rules);
        assert_eq!(at, path, "{rules}: {message}");
        assert!(message.contains(word), "{rules}: {message}");
    }
    assert!(Schema::check(&nested(SCHEMA_DEPTH_MAX - 1).to_string()).is_ok());
    assert_eq!(code(Schema::check("{")), Some(ErrorCode::InvalidArgument));
    assert_eq!(code(Schema::check(&"[".repeat(5000))), Some(ErrorCode::InvalidArgument));
}

#[test]
fn limits_of_a_schema() {
    let long = |n: usize| json!({ "title": "x".repeat(n) }).to_string();
    let spare = long(0).len();
    assert!(Schema::check(&long(SCHEMA_BYTES_MAX - spare)).is_ok());
    assert_eq!(code(Schema::check(&long(SCHEMA_BYTES_MAX - spare + 1))), Some(ErrorCode::InvalidArgument));

    let wide = |n: usize| json!({"properties": (0..n).map(|i| (i.to_string(), json!({}))).collect::<Map<_, _>>()});
    assert!(Schema::check(&wide(SCHEMA_NODES_MAX - 1).to_string()).is_ok());
    assert!(refused(&wide(SCHEMA_NODES_MAX)).1.contains("schemas in one"));

    let refs = |n: usize| {
        let refs: Map<_, _> = (0..n).map(|i| (i.to_string(), json!({"$ref": "#/$defs/x"}))).collect();
        json!({"properties": refs, "$defs": {"x": {}}})
    };
    assert!(Schema::check(&refs(SCHEMA_REFS_MAX).to_string()).is_ok());
    assert!(refused(&refs(SCHEMA_REFS_MAX + 1)).1.contains("references"));

    let patterns = |n: usize| json!({"allOf": (0..n).map(|i| json!({"pattern": format!("a{i}")})).collect::<Vec<_>>()});
    assert!(Schema::check(&patterns(SCHEMA_PATTERNS_MAX).to_string()).is_ok());
    assert!(refused(&patterns(SCHEMA_PATTERNS_MAX + 1)).1.contains("patterns"));

    let states = |n: u64| json!({ "pattern": format!("(?:ab|cd){{{n}}}") });
    assert!(Schema::check(&states(SCHEMA_PATTERN_STATES_MAX / 10).to_string()).is_ok());
    assert!(refused(&states(SCHEMA_PATTERN_STATES_MAX)).1.contains("states"));
    assert!(refused(&json!({"pattern": "((((a{100}){100}){100}){100}){100}"})).1.contains("states"));

    let huge = |n: u64| json!({"enum": (0..n).collect::<Vec<_>>()});
    assert!(Schema::check(&huge(SCHEMA_STEPS_MAX - 10).to_string()).is_ok());
    assert!(refused(&huge(SCHEMA_STEPS_MAX)).1.contains("steps"));
}

#[test]
fn errors_are_few_and_short_and_keep_the_payload_to_themselves() {
    let list =
        schema(&json!({"properties": {"l": {"items": {"type": "string"}}, "e": {"enum": ["x".repeat(5000), "y"]}}}));
    let fault = list.validate(&json!({"l": vec![12345; 50]}).to_string()).unwrap_err();
    let told = errors(&fault);
    assert_eq!(told.len(), SCHEMA_ERRORS_MAX);
    assert_eq!(told[3].0, "/l/3");
    assert!(told[3].1.contains("string") && !told[3].1.contains("12345"), "{told:?}");
    let fault = list.validate(r#"{"e": "secret"}"#).unwrap_err();
    let told = errors(&fault);
    assert_eq!((told[0].0.as_str(), told[0].1.chars().count()), ("/e", SCHEMA_ERROR_CHARS_MAX), "{told:?}");
    assert!(!fault.payload(None).to_string().contains("secret"));
    // A payload so large that listing would cost too much is still refused with the right code.
    let fault = list.validate(&json!({"l": vec![1; 100_000]}).to_string()).unwrap_err();
    assert_eq!(errors(&fault).len(), 1);
}

/// `$ref`s that double at each level: 2^40 schemas for one value, or below one another.
fn doubling(levels: usize, wrap: impl Fn(Value) -> Value) -> Value {
    let mut defs = Map::new();
    for level in 0..levels {
        defs.insert(format!("d{level}"), wrap(json!({ "$ref": format!("#/$defs/d{}", level + 1) })));
    }
    defs.insert(format!("d{levels}"), json!({"type": "object"}));
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

#[test]
fn doubling_for_one_value_is_refused() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let (_, message) = refused(&doubling(40, |next| json!({ keyword: [next.clone(), next] })));
        assert!(message.contains("steps"), "{message}");
    }
    refused(&doubling(40, |next| json!({"if": next.clone(), "then": next.clone(), "else": next})));
    refused(&doubling(40, |next| json!({"not": next.clone(), "$ref": next["$ref"].clone()})));
    refused(&doubling(40, |next| json!({"dependentSchemas": {"a": next.clone(), "b": next}})));
    // Looking back at what was covered doubles too; what is allowed of it compiles in no time.
    let back = |levels| doubling(levels, |next| json!({"allOf": [next], "unevaluatedProperties": false}));
    let allowed =
        (1..40).take_while(|levels| within("looking back", || Schema::check(&back(*levels).to_string())).is_ok());
    assert!((3..20).contains(&allowed.count()));
    refused(&back(40));
    let below = |next: Value| json!({"properties": {"a": next.clone()}, "anyOf": [{"required": ["a"]}, {"properties": {"b": next}}], "unevaluatedProperties": false});
    within("looking back, below one another", || schema(&doubling(60, below)));
}

/// Through members and items it is the payload that decides how often a schema is met.
#[test]
fn doubling_below_one_another_is_bounded_by_the_payload() {
    let chain =
        |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({"a": inner.clone(), "b": inner})).to_string();
    let line = |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({ "a": inner })).to_string();
    // One of two members: nothing multiplies, however deep.
    let either =
        within("compiling", || schema(&doubling(40, |next| json!({"properties": {"a": next.clone(), "b": next}}))));
    assert_eq!(within("a wide payload", || either.validate(&chain(12))), Ok(()));
    assert_eq!(within("a deep payload", || either.validate(&line(PAYLOAD_DEPTH_MAX - 1))), Ok(()));
    // Both for each member: all right for flat payloads, refused for deep ones.
    for both in [
        json!({"patternProperties": {"a": {"$ref": "#"}, "b?": {"$ref": "#"}}}),
        json!({"anyOf": [{"properties": {"a": {"$ref": "#"}}, "required": ["z"]}, {"properties": {"a": {"$ref": "#"}}}]}),
        json!({"allOf": [{"additionalProperties": {"$ref": "#"}}], "additionalProperties": {"$ref": "#"}}),
        json!({"properties": {"a": {"$ref": "#"}}, "allOf": [{"properties": {"a": true}}], "unevaluatedProperties": {"$ref": "#"}}),
    ] {
        let schema = within("compiling", || schema(&both));
        assert_eq!(within("flat", || schema.validate(&line(6))), Ok(()), "{both}");
        let deep = within("deep", || schema.validate(&line(PAYLOAD_DEPTH_MAX - 1)));
        assert_eq!(code(deep), Some(ErrorCode::TooLarge), "{both}");
    }
}

#[test]
fn deep_payloads() {
    let line = |depth: usize| format!("{}{}", "{\"a\":".repeat(depth), "1".to_owned() + &"}".repeat(depth));
    let any = schema(&json!({"type": "object"}));
    assert_eq!(any.validate(&line(PAYLOAD_DEPTH_MAX)), Ok(()));
    assert_eq!(code(any.validate(&line(PAYLOAD_DEPTH_MAX + 1))), Some(ErrorCode::InvalidPayload));
    assert_eq!(code(any.validate(&"[".repeat(100_000))), Some(ErrorCode::InvalidPayload));
    let list = schema(&json!({"properties": {"a": {"$ref": "#"}}, "type": ["object", "integer"]}));
    assert_eq!(list.validate(&line(PAYLOAD_DEPTH_MAX)), Ok(()));
}

/// As deep as schemas may be open inside one another, on a stack smaller than any of ours, in a debug build too.
#[test]
fn the_stack_holds_what_is_allowed() {
    let link = |links: usize| {
        let mut defs = Map::new();
        for n in 0..links {
            defs.insert(format!("d{n}"), json!({"anyOf": [{"allOf": [{ "$ref": format!("#/$defs/d{}", n + 1) }]}]}));
        }
        defs.insert(format!("d{links}"), json!({"properties": {"a": {"$ref": "#"}}}));
        json!({"$ref": "#/$defs/d0", "$defs": defs})
    };
    let line = |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({ "a": inner })).to_string();
    let run = move || {
        let (mut passed, mut refused) = (0, 0);
        for (links, depth) in
            [(0, 63), (1, 63), (2, 63), (3, 40), (100, 1), (150, 0), (160, 0), (10, 14), (20, 8), (2, 30), (170, 5)]
        {
            let schema = schema(&link(links));
            match schema.validate(&line(depth)) {
                Ok(()) => passed += 1,
                Err(fault) => {
                    assert_eq!(fault.code, ErrorCode::TooLarge, "{links} links, {depth} deep: {fault}");
                    refused += 1;
                }
            }
        }
        assert!(passed >= 4 && refused >= 2, "{passed} passed, {refused} did not, with {SCHEMA_STACK_MAX}");
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
    // A chain of references as long as it may be, through members, compiles and is dropped.
    let chain = doubling(SCHEMA_REFS_MAX - 1, |next| json!({"properties": {"a": {"items": next}}}));
    let drop_it = move || drop(schema(&chain));
    std::thread::Builder::new().stack_size(1 << 20).spawn(drop_it).unwrap().join().unwrap();
}

/// A text of a and b without a pattern, the same each time: an automaton meets ever new states in it.
fn coins(len: usize) -> String {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let toss = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if state & 1 == 0 { 'a' } else { 'b' }
    };
    (0..len).map(toss).collect()
}

/// Payloads near the dearest that is let through, of each kind; what was measured stands at `SCHEMA_PAYLOAD_STEPS_MAX`.
#[test]
fn the_worst_that_is_allowed_is_bounded() {
    let numbers = |n: usize| (0..n).collect::<Vec<_>>();
    let text = "ab".repeat(500_000);
    let types = json!(["string", "number", "null"]);
    let wide: Map<_, _> = (0..900).map(|i| (format!("property-{i}"), json!({"type": "string"}))).collect();
    let unique = (0..8).fold(json!({}), |inner, _| json!({"uniqueItems": true, "items": inner}));
    let nest = |n: usize| (0..n).fold(json!(1), |inner, _| json!([inner, 2]));
    for (what, rules, payload) in [
        (
            "many numbers",
            json!({"items": {"type": types, "minimum": 0, "maximum": 1e9, "multipleOf": 0.01}}),
            json!(numbers(140_000)),
        ),
        ("many numbers, all wrong", json!({"items": {"type": "string"}}), json!(numbers(140_000))),
        (
            "last one wrong",
            json!({"items": {"anyOf": [{"type": "string"}, {"maximum": 139_998}]}}),
            json!(numbers(140_000)),
        ),
        ("tiny multipleOf", json!({"items": {"multipleOf": 1e-300}}), json!(vec![1e300; 1_800])),
        ("small multipleOf of large numbers", json!({"items": {"multipleOf": 1e-15}}), json!(vec![1e300; 9_000])),
        ("unique numbers", json!({"uniqueItems": true}), json!(numbers(140_000))),
        (
            "unique floats",
            json!({"uniqueItems": true}),
            json!((0..60_000).map(|i| f64::from(i) * 1e300).collect::<Vec<_>>()),
        ),
        ("unique, nested", unique, json!(vec![nest(7); 15])),
        (
            "unique long texts",
            json!({"uniqueItems": true}),
            json!((0..15).map(|i| format!("{}{i}", "x".repeat(60_000))).collect::<Vec<_>>()),
        ),
        ("enum", json!({"items": {"enum": numbers(1000)}}), json!(vec![999; 3900])),
        (
            "enum of texts",
            json!({"items": {"enum": [5, "a".repeat(30_000) + "b", "a".repeat(30_000) + "c"]}}),
            json!(vec!["a".repeat(30_000) + "c"; 30]),
        ),
        (
            "contains",
            json!({"items": {"contains": {"contains": {"const": 7}}}}),
            json!(vec![vec![vec![1; 10]; 10]; 1000]),
        ),
        (
            "wide objects",
            json!({"items": {"properties": wide, "required": ["property-1"]}}),
            json!(vec![json!({"property-1": "x"}); 4000]),
        ),
        ("maxLength", json!({"maxLength": 10_000_000, "minLength": 5}), json!(text)),
        ("plain pattern", json!({"pattern": "^[a-z]*$"}), json!(text)),
        ("catastrophic elsewhere", json!({"pattern": "^(a+)+$"}), json!("a".repeat(500_000) + "!")),
        ("many states at once", json!({"pattern": "(?:a|b)*a(?:a|b){20}c"}), json!(coins(250_000))),
        ("many more states at once", json!({"pattern": "[ab]*a[ab]{400}c"}), json!(coins(15_000))),
        ("dense states", json!({"pattern": "(?:[ab]{0,30}){0,30}c"}), json!(coins(6_000))),
        ("unicode", json!({"pattern": "\\p{L}{2,3}\\p{Nd}"}), json!("éß".repeat(5_000))),
        (
            "keys",
            json!({"propertyNames": {"pattern": "^[a-z0-9]+$"}, "patternProperties": {"9$": {"type": "integer"}}}),
            json!((0..30_000).map(|i| (format!("key{i}"), json!(i))).collect::<Map<_, _>>()),
        ),
    ] {
        let schema = schema(&rules);
        let payload = payload.to_string();
        assert!(payload.len() < 1 << 20, "{what}");
        let result = within(what, || schema.validate(&payload));
        if let Err(fault) = result {
            println!("    {} {}", fault.code, fault.message);
            assert!([ErrorCode::InvalidPayload, ErrorCode::TooLarge].contains(&fault.code), "{what}: {fault}");
        }
    }
}

#[test]
fn a_payload_that_would_take_too_long_is_refused() {
    let rules = schema(&json!({"items": {"enum": (0..SCHEMA_STEPS_MAX - 10).collect::<Vec<_>>()}}));
    let allowed = SCHEMA_PAYLOAD_STEPS_MAX / SCHEMA_STEPS_MAX;
    let list = |n: u64| json!(vec![5; usize::try_from(n).unwrap()]).to_string();
    assert_eq!(rules.validate(&list(allowed - 5)), Ok(()));
    let fault = rules.validate(&list(allowed + 50)).unwrap_err();
    assert_eq!(fault.code, ErrorCode::TooLarge);
    assert!(fault.message.contains("schema"), "{fault}");
}

#[test]
fn validators_are_kept_and_the_oldest_goes() {
    let validators = Validators::new();
    let key = |n: usize| (u32::try_from(n).unwrap(), 1);
    assert!(validators.is_empty());
    for n in 0..SCHEMAS_CACHED_MAX {
        validators.validate(key(n), r#"{"a":"string"}"#, r#"{"a":""}"#).unwrap();
    }
    assert_eq!(validators.len(), SCHEMAS_CACHED_MAX);
    // The text is not looked at again while the validator is at hand: this is how one sees that it is.
    let kept = |n: usize| validators.validate(key(n), "not json", r#"{"a":""}"#).is_ok();
    assert!(kept(0));
    validators.validate(key(SCHEMAS_CACHED_MAX), "{}", "{}").unwrap();
    assert_eq!(validators.len(), SCHEMAS_CACHED_MAX);
    assert!(kept(0) && !kept(1) && kept(2));
    // Another version is another schema.
    assert!(validators.validate((0, 2), r#"{"b":"string"}"#, r#"{"a":""}"#).is_err());
    // What does not compile is not kept.
    assert_eq!(code(validators.validate((9999, 1), "{", "{}")), Some(ErrorCode::InvalidArgument));
    assert_eq!(validators.len(), SCHEMAS_CACHED_MAX);
}

#[test]
fn schemas_with_many_patterns_are_kept_in_less_number() {
    let validators = Validators::new();
    let many =
        json!({"allOf": (0..SCHEMA_PATTERNS_MAX).map(|i| json!({"pattern": format!("a{i}")})).collect::<Vec<_>>()});
    for n in 0..20 {
        validators.validate((n, 1), &many.to_string(), "{}").unwrap();
    }
    assert!((1..20).contains(&validators.len()), "{}", validators.len());
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
        "#(/(\\$defs|properties|allOf)/[a-c0]){0,2}".prop_map(Value::from),
        Just(json!("string")),
        Just(json!("object")),
        any::<String>().prop_map(Value::from),
    ]
}

fn tree(keys: &'static str) -> impl Strategy<Value = Value> {
    leaf().prop_recursive(5, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((keys, inner), 0..5).prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

const KEYWORDS: &str = "[a-c]|type|\\$ref|\\$defs|\\$anchor|\\$id|properties|patternProperties|additionalProperties|propertyNames|items|prefixItems|contains|minContains|uniqueItems|allOf|anyOf|oneOf|not|if|then|else|enum|const|pattern|required|dependentSchemas|dependentRequired|unevaluatedProperties|unevaluatedItems|minLength|multipleOf|maximum|format";

/// Schemas that mostly mean something, so that the validator behind the checks is met often.
fn rules() -> impl Strategy<Value = Value> {
    let small = || (0u8..4).prop_map(Value::from);
    let one = |name: &'static str, value: BoxedStrategy<Value>| value.prop_map(move |v| json!({ name: v })).boxed();
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        one("type", "string|number|integer|object|array|null|boolean".prop_map(Value::from).boxed()),
        one("enum", prop::collection::vec(tree("[a-c]"), 0..3).prop_map(Value::from).boxed()),
        one("const", tree("[a-c]").boxed()),
        one("pattern", "[a-c.^$+*?|()\\[\\]{}0-9\\\\]{0,6}".prop_map(Value::from).boxed()),
        one("required", prop::collection::vec("[a-c]", 0..2).prop_map(Value::from).boxed()),
        one("uniqueItems", any::<bool>().prop_map(Value::from).boxed()),
        one("minLength", small().boxed()),
        one("maxItems", small().boxed()),
        one("multipleOf", any::<f64>().prop_map(Value::from).boxed()),
        one("maximum", any::<i64>().prop_map(Value::from).boxed()),
        one("$ref", "#(/\\$defs/[a-c])?".prop_map(Value::from).boxed()),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..4).prop_map(Value::from);
        let map = prop::collection::btree_map("[a-c]", inner.clone(), 0..4).prop_map(|m| json!(m));
        let lists = prop::sample::select(vec!["allOf", "anyOf", "oneOf", "prefixItems"]);
        let maps = prop::sample::select(vec!["properties", "patternProperties", "dependentSchemas", "$defs"]);
        let ones = prop::sample::select(vec![
            "not",
            "if",
            "then",
            "else",
            "items",
            "contains",
            "additionalProperties",
            "propertyNames",
            "unevaluatedProperties",
            "unevaluatedItems",
        ]);
        let member = prop_oneof![
            (lists.prop_map(str::to_owned), list),
            (maps.prop_map(str::to_owned), map),
            (ones.prop_map(str::to_owned), inner),
        ];
        prop::collection::vec(member, 1..5).prop_map(|m| Value::Object(m.into_iter().collect()))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_json_as_schema_and_as_payload_never_panics(
        rules in prop_oneof![tree(KEYWORDS), rules()],
        payload in tree("[a-c]"),
    ) {
        match Schema::compile(&rules.to_string()) {
            Ok(schema) => {
                let start = Instant::now();
                if let Err(fault) = schema.validate(&payload.to_string()) {
                    prop_assert!([ErrorCode::InvalidPayload, ErrorCode::TooLarge].contains(&fault.code));
                }
                prop_assert!(start.elapsed() < BOUND, "{} {}", rules, payload);
            }
            Err(fault) => prop_assert_eq!(fault.code, ErrorCode::InvalidArgument, "{}", rules),
        }
    }

    #[test]
    fn any_text_never_panics(rules in any::<String>(), payload in any::<String>()) {
        let _ = Schema::check(&rules);
        let schema = Schema::compile("{\"a\":\"string\"}").unwrap();
        let _ = schema.validate(&payload);
    }
}

/// The strategy above is worth something: a good part of what it makes is taken.
#[test]
fn made_up_schemas_are_often_taken() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let taken = (0..200).filter(|_| {
        let rules = rules().new_tree(&mut runner).unwrap().current();
        Schema::check(&rules.to_string()).is_ok()
    });
    let taken = taken.count();
    assert!(taken > 50, "{taken} of 200");
}
