//! Access rules of resources: who may read, write, invoke and administer one (OpenAgents sheet, section 10).
//!
//! Invariant: a [`Rule`] is canonical: its elements are deduplicated and sorted by their text, a single one stands alone,
//! so two rules that say the same in the same words are equal and are written the same. Every address in it is a
//! principal of this network. The owner of a resource passes every rule, and nobody else passes who is no member.
//! Not here: who owns what, who is in which group, and what a refusal looks like (`rialto-engine`).

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use crate::address::ResourceKind;
use crate::{Address, ErrorCode, Fault, NetworkId, Role};

/// Principals that one access rule may name, and elements it may have; more is `invalid_argument`.
pub const RULE_TERMS_MAX: usize = 256;

/// What is wrong with something that should have been a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Neither a string nor an array of strings.
    #[error("a rule is a string or an array of strings")]
    NotText,
    /// A word that the grammar does not know.
    #[error(
        "a rule is network, owner, none, role:master, role:member, role:observer, group/NAME or agents:[ADDRESS, …]; \
         a single address is written agents:[ADDRESS] or as an array"
    )]
    Unknown,
    /// `role:` and something that is no role.
    #[error("a role is master, member or observer")]
    BadRole,
    /// `agents:` without its brackets.
    #[error("agents: is followed by a list in brackets, as in agents:[agent:a, human:b]")]
    BadList,
    /// An address in a list that does not parse.
    #[error("{text:?} in a rule: {why}")]
    BadAddress {
        /// What was written, cut if it is long.
        text: String,
        /// What is wrong with it.
        why: crate::address::AddressError,
    },
    /// An address that can be no member here: a channel, everybody, another network's.
    #[error("{0:?} in a rule names no agent, human or group of this network")]
    NotAPrincipal(String),
    /// More elements and listed addresses than one rule may have.
    #[error("a rule names at most {RULE_TERMS_MAX} principals")]
    TooMany,
}

impl RuleError {
    /// The code a caller sees.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotText
            | Self::Unknown
            | Self::BadRole
            | Self::BadList
            | Self::BadAddress { .. }
            | Self::NotAPrincipal(_)
            | Self::TooMany => ErrorCode::InvalidArgument,
        }
    }
}

/// Who is asking, as far as rules look. The engine fills this from its state without copying anything.
pub trait Principal {
    /// Whether it owns the resource. The owner passes every rule.
    fn is_owner(&self) -> bool;
    /// Its role in the network; `None` for somebody who is no member.
    fn role(&self) -> Option<Role>;
    /// Whether this address is its own.
    fn is(&self, address: &Address) -> bool;
    /// Whether it is in the group of this name. Nobody is in a group that does not exist.
    fn in_group(&self, name: &str) -> bool;
}

/// One access rule: any of its elements lets a member pass.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule(Box<[Term]>);

/// One element of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Term {
    /// Every member.
    Network,
    /// The owner, who passes anyway.
    Owner,
    /// Nobody but the owner.
    None,
    /// Members of one role.
    Role(Role),
    /// Members of a group; the address is a `group/`.
    Group(Address),
    /// The `agents:[…]` form, sorted.
    Agents(Box<[Address]>),
    /// A bare address; only in arrays, because as a string by itself it is no rule.
    Address(Address),
}

impl Rule {
    /// `network`: every member.
    pub fn network() -> Rule {
        Rule(Box::new([Term::Network]))
    }

    /// `owner`: the owner alone.
    pub fn owner() -> Rule {
        Rule(Box::new([Term::Owner]))
    }

    /// `none`: nobody but the owner.
    pub fn none() -> Rule {
        Rule(Box::new([Term::None]))
    }

    /// `role:…`: members of that role.
    pub fn role(role: Role) -> Rule {
        Rule(Box::new([Term::Role(role)]))
    }

    /// Reads a rule as a client writes it: a string, or an array of strings and addresses.
    pub fn from_json(value: &Value) -> Result<Rule, RuleError> {
        read(value, None)
    }

    /// Like [`Rule::from_json`] on network `own`, whose id in front of an address means "here".
    pub fn from_json_in(value: &Value, own: &NetworkId) -> Result<Rule, RuleError> {
        read(value, Some(own))
    }

    /// Whether `who` passes.
    pub fn allows(&self, who: &impl Principal) -> bool {
        who.is_owner() || who.role().is_some_and(|role| self.0.iter().any(|term| term.allows(who, role)))
    }

    /// Whether every member passes, so that nobody needs to be asked one by one.
    pub fn is_network(&self) -> bool {
        self.0.contains(&Term::Network)
    }

    /// The rule after `from` was renamed to `to`; `None` if it does not name it.
    pub fn renamed(&self, from: &Address, to: &Address) -> Option<Rule> {
        let mut found = false;
        let mut swap = |address: &Address| {
            let same = address == from;
            found |= same;
            if same { to.clone() } else { address.clone() }
        };
        let terms = self
            .0
            .iter()
            .map(|term| match term {
                Term::Agents(list) => Term::agents(list.iter().map(&mut swap).collect()),
                Term::Address(address) => Term::Address(swap(address)),
                Term::Network | Term::Owner | Term::None | Term::Role(_) | Term::Group(_) => term.clone(),
            })
            .collect();
        found.then(|| canonical(terms))
    }

    /// As members see it, canonical.
    pub fn view(&self) -> RuleView {
        match &*self.0 {
            [term] => RuleView::One(term.to_string()),
            terms => RuleView::Any(terms.iter().map(Term::to_string).collect()),
        }
    }

    /// The canonical form as JSON.
    pub fn to_json(&self) -> Value {
        match self.view() {
            RuleView::One(term) => term.into(),
            RuleView::Any(terms) => terms.into(),
        }
    }
}

impl Term {
    fn allows(&self, who: &impl Principal, role: Role) -> bool {
        match self {
            Term::Network => true,
            Term::Owner | Term::None => false, // the owner has passed already
            Term::Role(wanted) => role == *wanted,
            Term::Group(group) => who.in_group(group.bare_name()),
            Term::Agents(list) => list.iter().any(|address| who.is(address)),
            Term::Address(address) => who.is(address),
        }
    }

    fn agents(mut list: Vec<Address>) -> Term {
        list.sort();
        list.dedup();
        Term::Agents(list.into())
    }

    /// Reads the string form; `budget` is what the rule may still name.
    fn parse(text: &str, own: Option<&NetworkId>, budget: &mut usize) -> Result<Term, RuleError> {
        *budget = budget.checked_sub(1).ok_or(RuleError::TooMany)?;
        match text {
            "network" => return Ok(Term::Network),
            "owner" => return Ok(Term::Owner),
            "none" => return Ok(Term::None),
            _ => {}
        }
        if let Some(role) = text.strip_prefix("role:") {
            return Role::from_wire(role).map(Term::Role).ok_or(RuleError::BadRole);
        }
        if let Some(list) = text.strip_prefix("agents:") {
            let inner = list.strip_prefix('[').and_then(|l| l.strip_suffix(']')).ok_or(RuleError::BadList)?;
            return Term::list(inner, own, budget);
        }
        if text.starts_with("group/") {
            // Before the slash no `::` can stand, so what parses is a group of this network.
            return Ok(Term::Group(parse_address(text, own)?));
        }
        Err(RuleError::Unknown)
    }

    /// What stands in the brackets of `agents:[…]`.
    fn list(inner: &str, own: Option<&NetworkId>, budget: &mut usize) -> Result<Term, RuleError> {
        if inner.trim_matches(' ').is_empty() {
            return Ok(Term::Agents(Box::default()));
        }
        let mut list = Vec::new();
        for (nth, text) in inner.split(',').enumerate() {
            if nth > 0 {
                *budget = budget.checked_sub(1).ok_or(RuleError::TooMany)?; // the first was paid by the element
            }
            list.push(principal(text.trim_matches(' '), own)?);
        }
        Ok(Term::agents(list))
    }
}

/// One rule out of a JSON value.
fn read(value: &Value, own: Option<&NetworkId>) -> Result<Rule, RuleError> {
    let mut budget = RULE_TERMS_MAX;
    match value {
        Value::String(text) => Ok(canonical(vec![Term::parse(text, own, &mut budget)?])),
        Value::Array(items) => {
            let mut terms = Vec::new();
            for item in items {
                let Value::String(text) = item else { return Err(RuleError::NotText) };
                terms.push(match Term::parse(text, own, &mut budget) {
                    // No word of the grammar: then it is a bare address.
                    Err(RuleError::Unknown) => Term::Address(principal(text, own)?),
                    term => term?,
                });
            }
            Ok(canonical(terms))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Err(RuleError::NotText),
    }
}

/// Deduplicated, sorted by text, none of nothing, and a lone address in the form that is a rule by itself.
fn canonical(terms: Vec<Term>) -> Rule {
    let mut terms: Vec<_> = terms.into_iter().map(|term| (term.to_string(), term)).collect();
    terms.sort_by(|a, b| a.0.cmp(&b.0));
    terms.dedup_by(|a, b| a.0 == b.0);
    let mut terms: Vec<_> = terms.into_iter().map(|(_, term)| term).collect();
    if let [Term::Address(address)] = &*terms {
        return Rule(Box::new([Term::Agents(Box::new([address.clone()]))]));
    }
    if terms.is_empty() {
        terms.push(Term::None);
    }
    Rule(terms.into())
}

/// An address of somebody who can be a member here.
fn principal(text: &str, own: Option<&NetworkId>) -> Result<Address, RuleError> {
    let address = parse_address(text, own)?;
    if address.is_principal() && !address.is_foreign() {
        Ok(address)
    } else {
        Err(RuleError::NotAPrincipal(shown(text)))
    }
}

fn parse_address(text: &str, own: Option<&NetworkId>) -> Result<Address, RuleError> {
    let parsed = match own {
        Some(own) => Address::parse_in(text, own),
        None => Address::parse(text),
    };
    parsed.map_err(|why| RuleError::BadAddress { text: shown(text), why })
}

/// What an error repeats of a stranger's text.
fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Network => f.write_str("network"),
            Term::Owner => f.write_str("owner"),
            Term::None => f.write_str("none"),
            Term::Role(role) => write!(f, "role:{}", role.as_str()),
            Term::Group(address) | Term::Address(address) => f.write_str(address.as_str()),
            Term::Agents(list) => {
                f.write_str("agents:[")?;
                for (nth, address) in list.iter().enumerate() {
                    let comma = if nth > 0 { ", " } else { "" };
                    write!(f, "{comma}{address}")?;
                }
                f.write_str("]")
            }
        }
    }
}

/// The string form where there is one, otherwise the JSON array: what people see.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            [term] => term.fmt(f),
            _ => self.to_json().fmt(f),
        }
    }
}

/// Reads what [`fmt::Display`] writes: the string form, or a JSON array as text.
impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Rule, RuleError> {
        if text.starts_with('[') {
            let value: Value = serde_json::from_str(text).map_err(|_| RuleError::NotText)?;
            return read(&value, None);
        }
        let mut budget = RULE_TERMS_MAX;
        Ok(canonical(vec![Term::parse(text, None, &mut budget)?]))
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &*self.0 {
            [term] => serializer.collect_str(term),
            terms => serializer.collect_seq(terms.iter().map(Term::to_string)),
        }
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rule, D::Error> {
        read(&Value::deserialize(deserializer)?, None).map_err(de::Error::custom)
    }
}

/// A rule in its canonical form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum RuleView {
    /// One term.
    One(String),
    /// Whoever passes one of these passes; nobody if there is none.
    Any(Vec<String>),
}

/// What can be done with a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// See that it exists, and its content.
    Read,
    /// Change its content.
    Write,
    /// Call it.
    Invoke,
    /// Change everything else, and take it away.
    Admin,
}

impl Operation {
    /// All of them, in the order of `your_permissions`.
    pub const ALL: [Operation; 4] = [Operation::Read, Operation::Write, Operation::Invoke, Operation::Admin];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Invoke => "invoke",
            Self::Admin => "admin",
        }
    }

    /// Whether a resource of this kind knows the operation: tools are invoked and not written, the others the reverse.
    pub fn applies_to(self, kind: ResourceKind) -> bool {
        match (self, kind) {
            (Self::Read | Self::Admin, _) => true,
            (Self::Write, ResourceKind::File | ResourceKind::Context) | (Self::Invoke, ResourceKind::Tool) => true,
            (Self::Write, ResourceKind::Tool) | (Self::Invoke, ResourceKind::File | ResourceKind::Context) => false,
        }
    }
}

/// The rules of one resource, one per operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Permissions {
    /// Who sees that it exists, and its content.
    pub read: Rule,
    /// Who changes its content. Without meaning for tools.
    pub write: Rule,
    /// Who calls it. Without meaning for files and contexts.
    pub invoke: Rule,
    /// Who changes everything else.
    pub admin: Rule,
}

/// What holds where neither the resource nor the network's configuration says otherwise.
impl Default for Permissions {
    fn default() -> Permissions {
        Permissions { read: Rule::network(), write: Rule::owner(), invoke: Rule::network(), admin: Rule::owner() }
    }
}

impl Permissions {
    /// What holds in a network without mod/access-control: everything is free but administering.
    pub fn unguarded() -> Permissions {
        Permissions { write: Rule::network(), ..Permissions::default() }
    }

    /// The rule of an operation.
    pub fn rule(&self, operation: Operation) -> &Rule {
        match operation {
            Operation::Read => &self.read,
            Operation::Write => &self.write,
            Operation::Invoke => &self.invoke,
            Operation::Admin => &self.admin,
        }
    }

    /// Whether `who` may do this. Operations are judged one by one: invoking does not need reading.
    pub fn allow(&self, operation: Operation, who: &impl Principal) -> bool {
        self.rule(operation).allows(who)
    }

    /// `your_permissions`: what `who` may do with a resource of this kind, in the fixed order.
    pub fn granted(&self, kind: ResourceKind, who: &impl Principal) -> Vec<Operation> {
        Operation::ALL.into_iter().filter(|op| op.applies_to(kind) && self.allow(*op, who)).collect()
    }

    /// These permissions with what `value` says instead; what it leaves out stays. `kind` is the resource's, `None` for
    /// a network's defaults, which speak of all kinds; `field` is where the value stood, for the refusal.
    pub fn merged(
        &self,
        value: &Value,
        kind: Option<ResourceKind>,
        own: &NetworkId,
        field: &str,
    ) -> Result<Permissions, Fault> {
        let bad = |at: &str, text: String| Fault::new(ErrorCode::InvalidArgument, format!("{at}: {text}")).field(at);
        let Value::Object(members) = value else {
            return Err(bad(field, "permissions are an object of rules".to_owned()));
        };
        let mut out = self.clone();
        for (name, rule) in members {
            let at = format!("{field}.{}", shown(name));
            let Some(operation) = Operation::ALL.into_iter().find(|op| op.as_str() == name) else {
                return Err(bad(&at, "permissions are read, write, invoke and admin".to_owned()));
            };
            if let Some(kind) = kind
                && !operation.applies_to(kind)
            {
                return Err(bad(&at, format!("a {} has no {name} permission", kind.as_str())));
            }
            let rule = Rule::from_json_in(rule, own).map_err(|e| bad(&at, e.to_string()))?;
            match operation {
                Operation::Read => out.read = rule,
                Operation::Write => out.write = rule,
                Operation::Invoke => out.invoke = rule,
                Operation::Admin => out.admin = rule,
            }
        }
        Ok(out)
    }

    /// These permissions after a member was renamed; `None` if no rule names it.
    pub fn renamed(&self, from: &Address, to: &Address) -> Option<Permissions> {
        let swap = |rule: &Rule| rule.renamed(from, to);
        let (read, write, invoke, admin) = (swap(&self.read), swap(&self.write), swap(&self.invoke), swap(&self.admin));
        if read.is_none() && write.is_none() && invoke.is_none() && admin.is_none() {
            return None;
        }
        let keep = |new: Option<Rule>, old: &Rule| new.unwrap_or_else(|| old.clone());
        Some(Permissions {
            read: keep(read, &self.read),
            write: keep(write, &self.write),
            invoke: keep(invoke, &self.invoke),
            admin: keep(admin, &self.admin),
        })
    }

    /// The rules that mean something for this kind, as members see them.
    pub fn view(&self, kind: ResourceKind) -> BTreeMap<Operation, RuleView> {
        let rules = Operation::ALL.into_iter().filter(|op| op.applies_to(kind));
        rules.map(|op| (op, self.rule(op).view())).collect()
    }
}
