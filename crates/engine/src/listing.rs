//! Lists that have no page on the wire (OpenAgents sheet, section 5): read from a cursor on, a bounded piece at a time.
//!
//! Invariant: one piece has at most [`limits::LIST_ROWS_MAX`] rows of each kind and about [`limits::LIST_BYTES_MAX`] bytes, and
//! looks at little more; whoever wants the rest asks from where it ended.

use crate::history::Viewer;
use crate::input::Clock;
use crate::presence::VolatileState;
use crate::state::{ChannelId, Member, MemberId, State};
use rialto_model::access::Operation;
use rialto_model::payload::RosterFilter;
use rialto_model::view::{ChannelList, ChannelSection, ChannelView, MemberView, ResourceSummary, Roster, Section};
use rialto_model::{ErrorCode, Fault, limits};
use std::ops::Bound;

/// Bytes a row takes beside its texts, about.
const ROW_BYTES: usize = 256;
/// Bytes an address takes in a list, about.
const ADDRESS_BYTES: usize = 32;

/// How much of a list one piece may still hold.
#[derive(Debug, Clone, Copy)]
pub struct ListBudget {
    rows: usize,
    bytes: usize,
    looks: usize,
}

impl Default for ListBudget {
    fn default() -> ListBudget {
        ListBudget { rows: limits::LIST_ROWS_MAX, bytes: limits::LIST_BYTES_MAX, looks: limits::LIST_LOOKS_MAX }
    }
}

impl ListBudget {
    /// At most so many rows.
    pub fn rows(rows: usize) -> ListBudget {
        ListBudget { rows: rows.min(limits::LIST_ROWS_MAX), ..ListBudget::default() }
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
pub struct ListPiece<R> {
    /// The rows.
    pub rows: Vec<R>,
    /// Where the next piece begins.
    pub next: Option<String>,
}

impl<R> Default for ListPiece<R> {
    fn default() -> ListPiece<R> {
        ListPiece { rows: Vec::new(), next: None }
    }
}

impl<R> ListPiece<R> {
    /// Takes rows of a list while there is room. `row` gives nothing for what does not belong.
    pub(crate) fn of<T>(
        items: impl Iterator<Item = T>,
        mut budget: ListBudget,
        cost: impl Fn(&T) -> usize,
        cursor: impl Fn(&T) -> String,
        row: impl Fn(&T) -> Option<(R, usize)>,
    ) -> ListPiece<R> {
        let mut piece = ListPiece::default();
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

/// Whether the section is asked for.
fn wants(filter: &RosterFilter, section: Section) -> bool {
    filter.include.as_ref().is_none_or(|names| names.iter().any(|name| name == section.as_str()))
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

impl State {
    /// The roster of sheet section 5, as far as the viewer may see it: the first rows of each section, or those of one section after a
    /// cursor. Sections with more rows are in `next`, each with the cursor to go on from.
    pub fn discovered(
        &self,
        live: &VolatileState,
        viewer: Viewer,
        filter: &RosterFilter,
        now: Clock,
    ) -> Result<Roster, Fault> {
        let after = filter.after.as_deref().filter(|text| !text.is_empty());
        if after.is_some() && filter.include.as_ref().is_none_or(|names| names.len() != 1) {
            return Err(bad("after", "is a cursor of one section: include names that section alone"));
        }
        let budget = match filter.limit {
            None => ListBudget::default(),
            Some(limit) => {
                let rows = usize::try_from(limit).ok().filter(|n| (1..=limits::LIST_ROWS_MAX).contains(n));
                ListBudget::rows(rows.ok_or_else(|| bad("limit", &format!("1 to {}", limits::LIST_ROWS_MAX)))?)
            }
        };
        let mut roster = Roster::default();
        for section in Section::ALL.into_iter().filter(|section| wants(filter, *section)) {
            let next = match section {
                Section::Agents => {
                    let piece = self.agents_listed(live, filter, numbered(after)?, budget, now);
                    roster.agents = Some(piece.rows);
                    piece.next
                }
                Section::Channels => {
                    let (rows, next) = self.channels_listed(viewer, filter.full_channels, numbered(after)?, budget);
                    roster.channels = Some(rows);
                    next
                }
                Section::Mods => {
                    let enabled = self.book.mods.iter().filter(|m| m.enabled);
                    roster.mods = Some(enabled.map(|m| format!("mod/{}", m.name)).collect());
                    None
                }
                Section::Resources => {
                    let piece = self.resources_listed(viewer, after, budget);
                    roster.resources = Some(piece.rows);
                    piece.next
                }
                Section::Groups => {
                    let piece = self.groups_listed(after, budget);
                    roster.groups = Some(piece.rows);
                    piece.next
                }
            };
            roster.next.extend(next.map(|cursor| (section, cursor)));
        }
        roster.has_more = !roster.next.is_empty();
        Ok(roster)
    }

    fn agents_listed(
        &self,
        live: &VolatileState,
        filter: &RosterFilter,
        after: Option<MemberId>,
        budget: ListBudget,
        now: Clock,
    ) -> ListPiece<MemberView> {
        let RosterFilter { role, status, capability, query, .. } = filter;
        let passes = |id: MemberId, m: &Member| {
            role.as_deref().is_none_or(|r| m.role().as_str() == r)
                && status.as_deref().is_none_or(|s| self.presence_of(live, id, now).as_str() == s)
                && capability.as_ref().is_none_or(|c| m.profile.capabilities.contains(c))
                && query.as_deref().is_none_or(|q| {
                    m.address.contains(q) || m.profile.description.as_deref().is_some_and(|d| d.contains(q))
                })
        };
        let searches = query.is_some() || capability.is_some();
        ListPiece::of(
            self.roster_after(after),
            budget,
            |(_, m)| if searches { profile_bytes(m) } else { 0 },
            |(id, _)| id.to_string(),
            |(id, m)| {
                let entry = passes(*id, m).then(|| self.member_view(live, *id, now))??;
                Some((entry, profile_bytes(m)))
            },
        )
    }

    fn channels_listed(
        &self,
        viewer: Viewer,
        full: bool,
        after: Option<ChannelId>,
        budget: ListBudget,
    ) -> (ChannelSection, Option<String>) {
        if full {
            let piece = self.channel_views(viewer, after, budget);
            return (ChannelSection::Entries(piece.rows), piece.next);
        }
        let piece = ListPiece::of(
            self.channels_seen(viewer, after),
            budget,
            |_| 0,
            |(id, _)| id.to_string(),
            |(_, c)| Some((format!("channel/{}", c.name), c.name.len())),
        );
        (ChannelSection::Addresses(piece.rows), piece.next)
    }

    /// A piece of the channels the viewer may know of.
    pub fn channel_list(&self, viewer: Viewer, after: Option<ChannelId>, budget: ListBudget) -> ChannelList {
        let piece = self.channel_views(viewer, after, budget);
        ChannelList { channels: piece.rows, has_more: piece.next.is_some(), next: piece.next }
    }

    fn channel_views(&self, viewer: Viewer, after: Option<ChannelId>, budget: ListBudget) -> ListPiece<ChannelView> {
        ListPiece::of(
            self.channels_seen(viewer, after),
            budget,
            |_| 0,
            |(id, _)| id.to_string(),
            |(id, c)| Some((self.channel_view(*id)?, c.title.len() + c.seated.len() * ADDRESS_BYTES)),
        )
    }

    /// The first agents of the network; people are not among them.
    pub fn agent_views(&self, live: &VolatileState, now: Clock) -> ListPiece<MemberView> {
        ListPiece::of(
            self.roster_after(None),
            ListBudget::default(),
            |_| 0,
            |(id, _)| id.to_string(),
            |(id, m)| {
                let entry = (!m.is_human()).then(|| self.member_view(live, *id, now))??;
                Some((entry, profile_bytes(m)))
            },
        )
    }

    fn resources_listed(&self, viewer: Viewer, after: Option<&str>, budget: ListBudget) -> ListPiece<ResourceSummary> {
        let asker = match viewer {
            Viewer::Member(id) => Some(id),
            Viewer::Operator | Viewer::Reader { .. } => None,
        };
        let owner = |id: Option<MemberId>| match id {
            None => Some("core".into()),
            Some(id) => self.member(id).map(|m| m.address.clone()),
        };
        ListPiece::of(
            self.resources_after(after),
            budget,
            |_| ROW_BYTES,
            |r| r.address.to_string(),
            |r| {
                let row = || ResourceSummary { address: r.address.clone(), owner: owner(r.owner), kind: r.kind };
                self.allows(r, asker, Operation::Read).then(|| (row(), r.address.len()))
            },
        )
    }

    fn groups_listed(&self, after: Option<&str>, budget: ListBudget) -> ListPiece<String> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        ListPiece::of(
            self.book.groups.range::<str, _>((from, Bound::Unbounded)),
            budget,
            |_| 0,
            |(name, _)| name.to_string(),
            |(name, _)| Some((format!("group/{name}"), name.len())),
        )
    }
}
