//! Lists of what other workspace servers have and this one does not: always empty.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// Tabs of a browser: none.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Tabs {
    /// None.
    pub tabs: Vec<Value>,
    /// 0.
    pub total: u64,
}

/// Contexts of a browser: none.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Contexts {
    /// None.
    pub contexts: Vec<Value>,
    /// 0.
    pub total: u64,
}

/// Todos: none.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Todos {
    /// None.
    pub todos: Vec<Value>,
}

/// Timers: none.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Timers {
    /// None.
    pub timers: Vec<Value>,
}

/// Routines: none.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Routines {
    /// None.
    pub routines: Vec<Value>,
}

/// Notifications: none.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Notifications {
    /// None.
    pub notifications: Vec<Value>,
    /// 0.
    pub unread_count: u64,
}

/// Entries of a knowledge base: none.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Entries {
    /// None.
    pub entries: Vec<Value>,
    /// 0.
    pub total: u64,
}
