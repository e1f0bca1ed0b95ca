//! Schemas and payloads, a line each: refused with a code of theirs, or answered; never a panic, never long.

use rialto_model::ErrorCode;
use rialto_node::schema::Schema;

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (rules, payload) = text.split_once('\n').unwrap_or((text, "{}"));
    match Schema::compile(rules) {
        Ok(schema) => {
            if let Err(fault) = schema.validate(payload) {
                assert!(matches!(fault.code, ErrorCode::InvalidPayload | ErrorCode::TooLarge), "{fault}");
            }
        }
        Err(fault) => assert_eq!(fault.code, ErrorCode::InvalidArgument, "{fault}"),
    }
}
