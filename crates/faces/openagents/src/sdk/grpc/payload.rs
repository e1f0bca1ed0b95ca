//! Payloads: JSON in the network, `google.protobuf.Struct` inside `Any` on this wire.

use prost::Message as _;
use prost_types::value::Kind;
use prost_types::{Any, ListValue, Struct, Value as ProtoValue};
use rialto_model::{ErrorCode, Fault};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

const STRUCT_TYPE: &str = "type.googleapis.com/google.protobuf.Struct";
/// Whole numbers below this are whole in a double too.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

fn unreadable() -> Fault {
    Fault::new(ErrorCode::InvalidPayload, "the payload is no google.protobuf.Struct").field("payload")
}

/// The JSON text of a payload. A number that is whole becomes a whole number: protobuf has none but doubles.
pub(super) fn json(any: &Any) -> Result<Box<RawValue>, Fault> {
    if any.type_url.rsplit('/').next() != Some("google.protobuf.Struct") {
        return Err(unreadable());
    }
    let whole = Struct::decode(any.value.as_slice()).map_err(|_| unreadable())?;
    super::super::map::raw(&Value::Object(object(whole)?))
}

fn object(whole: Struct) -> Result<Map<String, Value>, Fault> {
    whole.fields.into_iter().map(|(name, member)| Ok((name, value(member)?))).collect()
}

fn value(value_of: ProtoValue) -> Result<Value, Fault> {
    Ok(match value_of.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(on)) => on.into(),
        Some(Kind::StringValue(text)) => text.into(),
        #[allow(clippy::cast_possible_truncation, reason = "whole and within the bounds of both")]
        Some(Kind::NumberValue(n)) if n.fract() == 0.0 && n.abs() < WHOLE_MAX => (n as i64).into(),
        Some(Kind::NumberValue(n)) => Number::from_f64(n).map(Value::Number).ok_or_else(unreadable)?,
        Some(Kind::StructValue(inner)) => object(inner)?.into(),
        Some(Kind::ListValue(list)) => list.values.into_iter().map(value).collect::<Result<Vec<_>, _>>()?.into(),
    })
}

/// A JSON object as a payload.
pub(super) fn any(payload: &Map<String, Value>) -> Any {
    Any { type_url: STRUCT_TYPE.to_owned(), value: proto_struct(payload).encode_to_vec() }
}

fn proto_struct(object: &Map<String, Value>) -> Struct {
    Struct { fields: object.iter().map(|(name, member)| (name.clone(), proto(member))).collect() }
}

fn proto(value: &Value) -> ProtoValue {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(on) => Kind::BoolValue(*on),
        Value::Number(n) => Kind::NumberValue(n.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(list) => Kind::ListValue(ListValue { values: list.iter().map(proto).collect() }),
        Value::Object(object) => Kind::StructValue(proto_struct(object)),
    };
    ProtoValue { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn payloads_there_and_back() {
        let payload = json!({ "n": 3, "f": 1.5, "list": [1, null, true, "x"], "in": { "deep": -7 }, "big": 9007199254740991_i64 });
        let there = any(payload.as_object().unwrap());
        assert_eq!(json(&there).unwrap().get(), payload.to_string());
        let other = Any { type_url: "type.googleapis.com/other.Kind".into(), value: there.value.clone() };
        assert_eq!(json(&other).unwrap_err().code, ErrorCode::InvalidPayload);
        let broken = Any { value: vec![0xff; 3], ..there };
        assert_eq!(json(&broken).unwrap_err().code, ErrorCode::InvalidPayload);
        let infinite = proto(&json!(1)).kind.map(|_| Kind::NumberValue(f64::INFINITY));
        assert!(value(ProtoValue { kind: infinite }).is_err());
    }
}
