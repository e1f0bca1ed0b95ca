//! What validating costs at most, before it is tried.
//!
//! For each depth below the payload's top: how many steps all schemas together may take on one value there. A value is
//! reached from its parent by every schema that is applied to the parent, so costs are sums along the schemas for the
//! same value and, level by level, along those for what is inside: members take one of `properties` (the dearest is
//! counted), but all of `patternProperties`. Schemas for the same value must not go in circles; circles through what is
//! inside end with the payload, and what they multiply to at each depth is counted here.

use rialto_model::Fault;
use rialto_model::limits::PAYLOAD_DEPTH_MAX;
use serde_json::Value;

use super::graph::{BYTE_PARTS, Graph, SchemaNode, is_extreme};
use super::limits::SCHEMA_STEPS_MAX;
use super::refused;

/// Values that a number counts for whose exact arithmetic is slow.
const EXTREME_VALUES: u64 = 40;

/// Depths at which a value can be: the payload itself, and one below each of its levels.
const DEPTHS: usize = PAYLOAD_DEPTH_MAX + 2;

/// The most that one value, or one byte of it, costs at each depth.
#[derive(Debug)]
pub(super) struct Costs {
    steps: Vec<Cost>,
    byte_parts: Vec<Cost>,
    stack: Vec<u64>,
}

/// A cost in its three forms.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    /// To learn whether the value fits.
    judge: u64,
    /// To learn, after that, what the schemas for the same value have covered: each judges again what it tries.
    cover: u64,
    /// To tell every error: whatever tries others judges first and then looks for their errors.
    tell: u64,
}

impl Cost {
    fn plus(self, other: Cost) -> Cost {
        Cost {
            judge: self.judge.saturating_add(other.judge),
            cover: self.cover.saturating_add(other.cover),
            tell: self.tell.saturating_add(other.tell),
        }
    }

    fn or(self, other: Cost) -> Cost {
        Cost { judge: self.judge.max(other.judge), cover: self.cover.max(other.cover), tell: self.tell.max(other.tell) }
    }
}

impl Costs {
    pub(super) fn of(graph: &Graph) -> Result<Costs, Fault> {
        let order = inner_first(graph)?;
        let steps = by_depth(graph, &order, |node, depth| match depth {
            0 => node.steps,
            _ => node.inside.0,
        });
        // One value alone must not cost too much, whichever schema it meets.
        for (node, cost) in graph.nodes.iter().zip(&steps.top) {
            if cost.judge > SCHEMA_STEPS_MAX {
                return Err(refused(&node.path, format!("one value would take more than {SCHEMA_STEPS_MAX} steps")));
            }
        }
        let byte_parts = by_depth(graph, &order, |node, depth| match depth {
            0 => node.byte_parts,
            1 => node.inside.1.saturating_add(node.key_parts),
            _ => node.inside.1,
        });
        Ok(Costs { steps: steps.root, byte_parts: byte_parts.root, stack: stack(graph, &order) })
    }

    /// Steps to learn whether a payload fits.
    pub(super) fn steps(&self, tally: &Tally) -> u64 {
        self.total(tally, |cost| cost.judge)
    }

    /// Steps to tell every error.
    pub(super) fn error_steps(&self, tally: &Tally) -> u64 {
        self.total(tally, |cost| cost.tell)
    }

    /// Schemas that are open inside one another at the payload's deepest value.
    pub(super) fn stack(&self, tally: &Tally) -> u64 {
        let deepest = tally.0.len().saturating_sub(1);
        self.stack.get(deepest).copied().unwrap_or(u64::MAX)
    }

    fn total(&self, tally: &Tally, of: impl Fn(&Cost) -> u64) -> u64 {
        let levels = tally.0.iter().zip(self.steps.iter().zip(&self.byte_parts));
        let costs = levels.map(|((values, bytes), (steps, parts))| {
            let bytes = bytes.saturating_mul(of(parts)) / BYTE_PARTS;
            values.saturating_mul(of(steps)).saturating_add(bytes)
        });
        costs.fold(0, u64::saturating_add)
    }
}

/// Values and bytes of strings at each depth of a payload. A key counts as a value beside its member's.
#[derive(Debug)]
pub(super) struct Tally(Vec<(u64, u64)>);

impl Tally {
    pub(super) fn of(payload: &Value) -> Tally {
        let mut levels = Vec::new();
        let mut level = vec![payload];
        while !level.is_empty() {
            let mut values = level.len() as u64;
            let (mut bytes, mut keys, mut next) = (0, (0, 0), Vec::new());
            for value in level {
                match value {
                    Value::String(text) => bytes += text.len() as u64,
                    Value::Array(items) => next.extend(items),
                    Value::Object(members) => {
                        keys.0 += members.len() as u64;
                        keys.1 += members.keys().map(|key| key.len() as u64).sum::<u64>();
                        next.extend(members.values());
                    }
                    Value::Number(_) if is_extreme(value) => values += EXTREME_VALUES,
                    Value::Null | Value::Bool(_) | Value::Number(_) => {}
                }
            }
            levels.push((values, bytes, keys));
            level = next;
        }
        // Keys stand one level below the object they are in.
        let mut above = (0, 0);
        let below = levels.into_iter().map(|(values, bytes, keys)| {
            let sum = (values + above.0, bytes + above.1);
            above = keys;
            sum
        });
        Tally(below.collect())
    }
}

/// The nodes in an order in which every node comes after those it applies to the same value.
fn inner_first(graph: &Graph) -> Result<Vec<usize>, Fault> {
    let count = graph.nodes.len();
    let mut waiting = vec![0usize; count];
    let mut users = vec![Vec::new(); count];
    for (number, node) in graph.nodes.iter().enumerate() {
        for inner in &node.here {
            if let (Some(waiting), Some(users)) = (waiting.get_mut(number), users.get_mut(*inner)) {
                *waiting += 1;
                users.push(number);
            }
        }
    }
    let mut order: Vec<usize> = (0..count).filter(|n| waiting.get(*n) == Some(&0)).collect();
    let mut at = 0;
    while let Some(done) = order.get(at).copied() {
        at += 1;
        for user in users.get(done).into_iter().flatten() {
            if let Some(waiting) = waiting.get_mut(*user) {
                *waiting -= 1;
                if *waiting == 0 {
                    order.push(*user);
                }
            }
        }
    }
    match graph.nodes.iter().zip(&waiting).find(|(_, waiting)| **waiting > 0) {
        Some((node, _)) => Err(refused(&node.path, "refers to itself for the same value, without end")),
        None => Ok(order),
    }
}

struct ByDepth {
    /// Each node's cost on the value itself.
    top: Vec<Cost>,
    /// The document's cost at each depth.
    root: Vec<Cost>,
}

/// Level by level; `own` is what a node itself costs on a value at that depth below the one it is applied to.
fn by_depth(graph: &Graph, order: &[usize], own: impl Fn(&SchemaNode, usize) -> u64) -> ByDepth {
    let none = vec![Cost::default(); graph.nodes.len()];
    let (mut top, mut root, mut above) = (none.clone(), Vec::new(), none.clone());
    for depth in 0..DEPTHS {
        let mut level = none.clone();
        for number in order {
            let Some(node) = graph.nodes.get(*number) else { continue };
            let cost = one(node, own(node, depth), &level, (depth > 0).then_some(&above));
            if let Some(place) = level.get_mut(*number) {
                *place = cost;
            }
        }
        root.push(level.first().copied().unwrap_or_default());
        if depth == 0 {
            top.clone_from(&level);
        }
        above = level;
    }
    ByDepth { top, root }
}

/// One node's cost, of those for the same value at this depth and those for what is inside at one less.
fn one(node: &SchemaNode, own: u64, level: &[Cost], inside: Option<&Vec<Cost>>) -> Cost {
    let at = |costs: &[Cost], number: &usize| costs.get(*number).copied().unwrap_or_default();
    let here = node.here.iter().map(|n| at(level, n)).fold(Cost::default(), Cost::plus);
    let within = inside.map_or_else(Cost::default, |costs| {
        let any = |numbers: &[usize]| numbers.iter().map(|n| at(costs, n)).fold(Cost::default(), Cost::or);
        let all = |numbers: &[usize]| numbers.iter().map(|n| at(costs, n)).fold(Cost::default(), Cost::plus);
        any(&node.member_one).plus(all(&node.member_all)).or(any(&node.item_one).plus(all(&node.item_all)))
    });
    let cover = here.judge.saturating_add(here.cover).saturating_add(within.judge);
    let mut judge = own.saturating_add(here.judge).saturating_add(within.judge);
    if node.looks_back {
        judge = judge.saturating_add(cover);
    }
    let tell = own.saturating_add(here.tell).saturating_add(within.tell);
    let tell = if node.tries { tell.saturating_add(judge) } else { tell };
    Cost { judge, cover, tell }
}

/// How deep schemas are open inside one another, by the depth of the payload.
fn stack(graph: &Graph, order: &[usize]) -> Vec<u64> {
    let mut above: Vec<u64> = vec![0; graph.nodes.len()];
    let mut root = Vec::new();
    for _ in 0..DEPTHS {
        let mut level = vec![0; graph.nodes.len()];
        for number in order {
            let Some(node) = graph.nodes.get(*number) else { continue };
            let here = node.here.iter().filter_map(|n| level.get(*n));
            let lists = [&node.member_one, &node.member_all, &node.item_one, &node.item_all];
            let inside = lists.into_iter().flatten().filter_map(|n| above.get(*n));
            let deepest = here.chain(inside).copied().max().unwrap_or(0);
            if let Some(place) = level.get_mut(*number) {
                *place = deepest + 1;
            }
        }
        root.push(level.first().copied().unwrap_or_default());
        above = level;
    }
    root
}
