//! Lists that have no page on the wire (OpenAgents sheet, section 5): read from a cursor on, a bounded piece at a time.
//!
//! Invariant: one piece has at most [`limits::LIST_ROWS_MAX`] rows of each kind and about [`limits::LIST_BYTES_MAX`] bytes, and
//! looks at little more; whoever wants the rest asks from where it ended.

use crate::history::Viewer;
use crate::input::Clock;
use crate::presence::Live;
use crate::state::{ChannelId, Member, MemberId, State};
use rialto_model::access::Operation;
use rialto_model::{ErrorCode, Fault, limits};
use serde_json::{Map, Value, json};
use std::ops::Bound;

/// Bytes a row takes beside its texts, about.
const ROW_BYTES: usize = 256;
/// Bytes an address takes in a list, about.
const ADDRESS_BYTES: usize = 32;

/// How much of a list one piece may still hold.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    rows: usize,
    bytes: usize,
    looks: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { rows: limits::LIST_ROWS_MAX, bytes: limits::LIST_BYTES_MAX, looks: limits::LIST_LOOKS_MAX }
    }
}

impl Budget {
    /// At most so many rows.
    pub fn rows(rows: usize) -> Budget {
        Budget { rows: rows.min(limits::LIST_ROWS_MAX), ..Budget::default() }
    }

    /// Whether another row may be looked at, which takes so many bytes to read.
    fn look(&mut self, bytes: usize) -> bool {
        let room = self.rows > 0 && self.bytes > 0 && self.looks > 0;
        // Reading is quicker than writing.
        self.looks = self.looks.saturating_sub(1 + bytes / ROW_BYTES);
        room
    }

    fn row(&mut self, bytes: usize) {
        self.rows = self.rows.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(ROW_BYTES + bytes);
    }
}

/// Rows, and the cursor behind them if there are more.
#[derive(Debug)]
pub struct Piece<R> {
    /// The rows.
    pub rows: Vec<R>,
    /// Where the next piece begins.
    pub next: Option<String>,
}

impl<R> Default for Piece<R> {
    fn default() -> Piece<R> {
        Piece { rows: Vec::new(), next: None }
    }
}

impl<R> Piece<R> {
    /// Takes rows of a list while there is room. `row` gives nothing for what does not belong.
    pub(crate) fn of<T>(
        items: impl Iterator<Item = T>,
        mut budget: Budget,
        cost: impl Fn(&T) -> usize,
        cursor: impl Fn(&T) -> String,
        row: impl Fn(&T) -> Option<(R, usize)>,
    ) -> Piece<R> {
        let mut piece = Piece::default();
        let mut last = None;
        for item in items {
            if !budget.look(cost(&item)) {
                piece.next = last.as_ref().map(cursor);
                break;
            }
            if let Some((row, bytes)) = row(&item) {
                budget.row(bytes);
                piece.rows.push(row);
            }
            last = Some(item);
        }
        piece
    }
}

/// Who asks for the roster, and in which form.
#[derive(Debug, Clone, Copy)]
pub struct Asker {
    /// Who asks.
    pub viewer: Viewer,
    /// Channels as objects, and what clients of workspace servers know agents by.
    pub compat: bool,
}

fn bad(field: &str, what: &str) -> Fault {
    Fault::new(ErrorCode::InvalidArgument, format!("{field}: {what}")).field(field)
}

fn numbered(after: Option<&str>) -> Result<Option<u32>, Fault> {
    let number = |text: &str| text.parse().map_err(|_| bad("after", "a cursor that an answer gave"));
    after.map(number).transpose()
}

/// Bytes of what a member says of itself.
fn profile_bytes(member: &Member) -> usize {
    let profile = &member.profile;
    profile.description.as_ref().map_or(0, String::len) + profile.capabilities.iter().map(String::len).sum::<usize>()
}

const SECTIONS: [&str; 5] = ["agents", "channels", "mods", "resources", "groups"];

impl State {
    /// The roster of sheet section 5, as far as this member may see it; `None` sees all (the operator).
    pub fn discover(&self, live: &Live, viewer: Option<MemberId>, filter: &Value, now: Clock) -> Result<Value, Fault> {
        let viewer = viewer.map_or(Viewer::Operator, Viewer::Member);
        self.discovered(live, Asker { viewer, compat: false }, filter, now)
    }

    /// The roster: the first rows of each section, or those of one section after a cursor. Sections with more rows are in `next`, each
    /// with the cursor to go on from.
    pub fn discovered(&self, live: &Live, asker: Asker, filter: &Value, now: Clock) -> Result<Value, Fault> {
        let include: Option<Vec<&str>> =
            filter.get("include").and_then(Value::as_array).map(|l| l.iter().filter_map(Value::as_str).collect());
        let after = filter.get("after").and_then(Value::as_str).filter(|text| !text.is_empty());
        if after.is_some() && include.as_ref().is_none_or(|l| l.len() != 1) {
            return Err(bad("after", "is a cursor of one section: include names that section alone"));
        }
        let budget = match filter.get("limit").filter(|limit| !limit.is_null()) {
            None => Budget::default(),
            Some(limit) => {
                let rows = limit.as_u64().and_then(|n| usize::try_from(n).ok());
                let rows = rows.filter(|n| (1..=limits::LIST_ROWS_MAX).contains(n));
                Budget::rows(rows.ok_or_else(|| bad("limit", &format!("1 to {}", limits::LIST_ROWS_MAX)))?)
            }
        };
        let (mut out, mut next) = (Map::new(), Map::new());
        for section in SECTIONS.into_iter().filter(|part| include.as_ref().is_none_or(|l| l.contains(part))) {
            let piece = match section {
                "agents" => self.agents_listed(live, asker, filter, numbered(after)?, budget, now),
                "channels" => self.channels_listed(asker, numbered(after)?, budget),
                "mods" => {
                    let enabled = self.book.mods.iter().filter(|m| m.enabled);
                    Piece { rows: enabled.map(|m| json!(format!("mod/{}", m.name))).collect(), next: None }
                }
                "resources" => self.resources_listed(asker.viewer, after, budget),
                _ => self.groups_listed(after, budget),
            };
            out.insert(section.to_owned(), piece.rows.into());
            if let Some(cursor) = piece.next {
                next.insert(section.to_owned(), cursor.into());
            }
        }
        if !next.is_empty() {
            out.insert("has_more".to_owned(), true.into());
            out.insert("next".to_owned(), next.into());
        }
        Ok(Value::Object(out))
    }

    fn agents_listed(
        &self,
        live: &Live,
        asker: Asker,
        filter: &Value,
        after: Option<MemberId>,
        budget: Budget,
        now: Clock,
    ) -> Piece<Value> {
        let text = |key: &str| filter.get(key).and_then(Value::as_str);
        let (role, status, capability, query) = (text("role"), text("status"), text("capability"), text("query"));
        let passes = |id: MemberId, m: &Member| {
            role.is_none_or(|r| m.role().as_str() == r)
                && status.is_none_or(|s| self.status_text(live, id, now) == s)
                && capability.is_none_or(|c| m.profile.capabilities.iter().any(|have| have == c))
                && query.is_none_or(|q| {
                    m.address.contains(q) || m.profile.description.as_deref().is_some_and(|d| d.contains(q))
                })
        };
        let searches = query.is_some() || capability.is_some();
        Piece::of(
            self.roster_after(after),
            budget,
            |(_, m)| if searches { profile_bytes(m) } else { 0 },
            |(id, _)| id.to_string(),
            |(id, m)| {
                let entry = passes(*id, m).then(|| self.roster_entry(live, *id, now))?;
                let entry = if asker.compat { as_compat(entry, m.name()) } else { entry };
                Some((entry, profile_bytes(m)))
            },
        )
    }

    fn channels_listed(&self, asker: Asker, after: Option<ChannelId>, budget: Budget) -> Piece<Value> {
        if asker.compat {
            return self.channel_entries(asker.viewer, after, budget);
        }
        Piece::of(
            self.channels_seen(asker.viewer, after),
            budget,
            |_| 0,
            |(id, _)| id.to_string(),
            |(_, c)| Some((json!(format!("channel/{}", c.name)), c.name.len())),
        )
    }

    /// Channels the viewer may know of, as objects.
    pub fn channel_entries(&self, viewer: Viewer, after: Option<ChannelId>, budget: Budget) -> Piece<Value> {
        Piece::of(
            self.channels_seen(viewer, after),
            budget,
            |_| 0,
            |(id, _)| id.to_string(),
            |(id, c)| Some((self.channel_entry(*id), c.title.len() + c.seated.len() * ADDRESS_BYTES)),
        )
    }

    /// Channels the viewer may know of, in a form of the caller's.
    pub fn channels_as(
        &self,
        viewer: Viewer,
        after: Option<ChannelId>,
        row: impl Fn(&crate::state::Channel) -> Value,
    ) -> Piece<Value> {
        Piece::of(
            self.channels_seen(viewer, after),
            Budget::default(),
            |_| 0,
            |(id, _)| id.to_string(),
            |(_, c)| Some((row(c), c.title.len() + c.seated.len() * ADDRESS_BYTES)),
        )
    }

    /// Members, in a form of the caller's; nothing for those that do not belong.
    pub fn members_as(
        &self,
        after: Option<MemberId>,
        row: impl Fn(MemberId, &Member) -> Option<Value>,
    ) -> Piece<Value> {
        Piece::of(
            self.roster_after(after),
            Budget::default(),
            |_| 0,
            |(id, _)| id.to_string(),
            |(id, m)| Some((row(*id, m)?, profile_bytes(m))),
        )
    }

    fn resources_listed(&self, viewer: Viewer, after: Option<&str>, budget: Budget) -> Piece<Value> {
        let asker = match viewer {
            Viewer::Member(id) => Some(id),
            Viewer::Operator | Viewer::Reader { .. } => None,
        };
        let owner = |id: Option<MemberId>| match id {
            None => Some("core".into()),
            Some(id) => self.member(id).map(|m| m.address.clone()),
        };
        Piece::of(
            self.resources_after(after),
            budget,
            |_| ROW_BYTES,
            |r| r.address.to_string(),
            |r| {
                let row = || json!({ "address": r.address, "owner": owner(r.owner), "type": r.kind.as_str() });
                self.allows(r, asker, Operation::Read).then(|| (row(), r.address.len()))
            },
        )
    }

    fn groups_listed(&self, after: Option<&str>, budget: Budget) -> Piece<Value> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        Piece::of(
            self.book.groups.range::<str, _>((from, Bound::Unbounded)),
            budget,
            |_| 0,
            |(name, _)| name.to_string(),
            |(name, _)| Some((json!(format!("group/{name}")), name.len())),
        )
    }
}

/// What clients of workspace servers know an agent by.
fn as_compat(mut entry: Value, name: &str) -> Value {
    if let Some(agent) = entry.as_object_mut() {
        let seen = agent.get("last_seen_at").cloned().unwrap_or_default();
        agent.insert("agent_name".into(), json!(name));
        agent.insert("last_heartbeat_at".into(), seen);
        agent.insert("enabled_skills".into(), json!([]));
    }
    entry
}
