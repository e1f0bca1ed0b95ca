//! Reading JSON into a type once, with a refusal that names the member that is wrong.
//!
//! Not here: what a well-formed value means, and texts that are passed on unread.

use crate::{ErrorCode, Fault};
use serde::Deserialize;
use serde_json::Value;

/// Where something is read, which the refusal says: the code it gets, and what stands before the names of members.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    code: ErrorCode,
    /// `payload`, or empty where members are named alone.
    name: &'static str,
}

/// The payload of an event.
pub const PAYLOAD: Place = Place { code: ErrorCode::InvalidPayload, name: "payload" };
/// The payload of a `work.*` event.
pub const WORK_PAYLOAD: Place = Place { code: ErrorCode::InvalidEvent, name: "payload" };
/// What a message says of work.
pub const WORK_METADATA: Place = Place { code: ErrorCode::InvalidEvent, name: "metadata.work" };
/// The payload of an event about a resource.
pub const RESOURCE_PAYLOAD: Place = Place { code: ErrorCode::InvalidArgument, name: "payload" };
/// What is to change about a channel.
pub const CHANGES: Place = Place { code: ErrorCode::InvalidPayload, name: "changes" };
/// The body of a request.
pub const BODY: Place = Place { code: ErrorCode::InvalidArgument, name: "" };

impl Place {
    /// A member of a request that is an object itself.
    pub const fn member(name: &'static str) -> Place {
        Place { name, ..BODY }
    }

    fn no_object(self) -> Fault {
        if self.name.is_empty() {
            return Fault::new(self.code, "the body is a JSON object");
        }
        Fault::new(self.code, format!("{} is a JSON object", self.name)).field(self.name)
    }
}

/// Reads the text of a JSON object.
pub fn text<'t, T: Deserialize<'t>>(text: &'t str, place: Place) -> Result<T, Fault> {
    // A struct would be read from a list too.
    if !text.trim_start().starts_with('{') {
        return Err(place.no_object());
    }
    serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text)).map_err(|e| refusal(&e, place))
}

/// Reads an object that was made of JSON text.
pub fn value<'t, T: Deserialize<'t>>(value: &'t Value, place: Place) -> Result<T, Fault> {
    if !value.is_object() {
        return Err(place.no_object());
    }
    serde_path_to_error::deserialize(value).map_err(|e| refusal(&e, place))
}

fn refusal(error: &serde_path_to_error::Error<serde_json::Error>, place: Place) -> Fault {
    let said = error.inner().to_string();
    // Where in the text it stands helps nobody who reads the name.
    let said = said.rsplit_once(" at line ").map_or(said.as_str(), |(said, _)| said);
    let mut names: Vec<String> = error.path().iter().map(|part| part.to_string()).collect();
    // A path ends at the value that lacks a member, or has one too many; only the text knows the member's name.
    names.extend(["missing field `", "unknown field `", "duplicate field `"].iter().find_map(|which| {
        let name = said.strip_prefix(which)?.split('`').next()?;
        (names_member(error.path(), name)).then(|| name.to_owned())
    }));
    let mut field = place.name.to_owned();
    for name in names {
        if !field.is_empty() && !name.starts_with('[') {
            field.push('.');
        }
        field.push_str(&name);
    }
    let said = if said.starts_with("missing field `") { "is required" } else { said };
    let fault = |text: String| Fault::new(place.code, text);
    if field.is_empty() { fault(said.to_owned()) } else { fault(format!("{field}: {said}")).field(&field) }
}

/// Whether the path does not end with the member yet.
fn names_member(path: &serde_path_to_error::Path, name: &str) -> bool {
    path.iter().next_back().is_none_or(|last| last.to_string() != name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    struct Inner {
        count: u32,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer<'t> {
        #[serde(borrow)]
        title: Cow<'t, str>,
        list: Option<Vec<Inner>>,
        flag: Option<bool>,
    }

    #[track_caller]
    fn wrong(json: &str) -> (ErrorCode, String, Option<String>) {
        let fault = text::<Outer<'_>>(json, PAYLOAD).unwrap_err();
        let field = fault.details.as_ref().and_then(|d| d["field"].as_str()).map(str::to_owned);
        (fault.code, fault.message, field)
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (json, field, message) in [
            ("{}", "payload.title", "is required"),
            (r#"{"title":5}"#, "payload.title", "invalid type: integer `5`, expected a string"),
            (
                r#"{"title":"a","titel":1}"#,
                "payload.titel",
                "unknown field `titel`, expected one of `title`, `list`, `flag`",
            ),
            (r#"{"title":"a","list":[{"count":1},{}]}"#, "payload.list[1].count", "is required"),
            (
                r#"{"title":"a","list":[{"count":-1}]}"#,
                "payload.list[0].count",
                "invalid value: integer `-1`, expected u32",
            ),
            (r#"{"title":"a","title":"b"}"#, "payload.title", "duplicate field `title`"),
            (r#"{"title":"a","flag":"yes"}"#, "payload.flag", "invalid type: string \"yes\", expected a boolean"),
            ("[1]", "payload", "is a JSON object"),
        ] {
            let (code, text, named) = wrong(json);
            assert_eq!(code, ErrorCode::InvalidPayload);
            let between = if json.starts_with('{') { ": " } else { " " };
            assert_eq!(text, format!("{field}{between}{message}"), "{json}");
            assert_eq!(named.as_deref(), Some(field), "{json}");
        }
    }

    #[test]
    fn members_of_a_body_are_named_alone() {
        let fault = value::<Inner>(&serde_json::json!({ "count": "many" }), BODY).unwrap_err();
        assert_eq!(fault.code, ErrorCode::InvalidArgument);
        assert_eq!(fault.message, "count: invalid type: string \"many\", expected u32");
        assert_eq!(fault.details.as_ref().and_then(|d| d["field"].as_str()), Some("count"));
        let fault = value::<Inner>(&serde_json::json!([1]), BODY).unwrap_err();
        assert_eq!(fault.message, "the body is a JSON object");
    }

    #[test]
    fn null_is_nothing() {
        let read: Outer<'_> = text(r#"{"title":"a \" b","list":null,"flag":null}"#, PAYLOAD).unwrap();
        assert_eq!(read, Outer { title: "a \" b".into(), list: None, flag: None });
    }
}
