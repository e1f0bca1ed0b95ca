//! Files of a workspace: resources that somebody brought under a name.

use crate::Millis;
use schemars::JsonSchema;
use serde::Serialize;

/// A file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileView {
    /// Its id.
    pub id: String,
    /// Its name, without a path.
    pub filename: String,
    /// What kind of content it is.
    pub content_type: String,
    /// Its bytes.
    pub size: Option<u64>,
    /// Address of who brought it.
    pub uploaded_by: Box<str>,
    /// When it was brought.
    pub created_at: Millis,
    /// The channel that it belongs to, without its prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel_name: Option<String>,
}

/// A page of files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileList {
    /// The newest first.
    pub files: Vec<FileView>,
    /// How many there are in all.
    pub total: usize,
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn files_in_full() {
        let file = FileView {
            id: "f1".to_owned(),
            filename: "plan.txt".to_owned(),
            content_type: "text/plain".to_owned(),
            size: Some(3),
            uploaded_by: "human:bob".into(),
            created_at: 4,
            channel_name: Some("plans".to_owned()),
        };
        let json = r#"{"files":[{"id":"f1","filename":"plan.txt","content_type":"text/plain","size":3,
            "uploaded_by":"human:bob","created_at":4,"channel_name":"plans"}],"total":7}"#;
        check(&FileList { files: vec![file], total: 7 }, json);
    }
}
