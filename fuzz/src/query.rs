//! Query strings of history reads: read or refused with the parameter's name; the page size is bounded; a payload with the same
//! texts means the same.

use rialto_model::limits;
use rialto_node::Query;
use serde_json::Value;
use std::collections::BTreeMap;

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(params) = serde_urlencoded::from_str::<BTreeMap<String, String>>(text) else { return };
    let read = Query::read(|key| params.get(key).filter(|value| !value.is_empty()).cloned());
    let payload: Value = params.iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| (k.clone(), v.clone())).collect();
    match (read, Query::from_payload(&payload)) {
        (Ok(query), Ok(same)) => {
            assert_eq!(query.view.or(Some(rialto_node::View::Log)), same.view);
            assert_eq!(format!("{:?}", query.filter), format!("{:?}", same.filter));
            assert_eq!((&query.after, &query.before, query.limit), (&same.after, &same.before, same.limit));
            match query.checked_limit() {
                Ok(limit) => assert!((1..=limits::PAGE_EVENTS_MAX).contains(&limit)),
                Err(fault) => assert!(fault.to_string().contains("limit"), "{fault}"),
            }
        }
        (Err(fault), Err(same)) => assert_eq!(fault.to_string(), same.to_string()),
        (one, other) => panic!("read and refused: {one:?} {other:?}"),
    }
}
