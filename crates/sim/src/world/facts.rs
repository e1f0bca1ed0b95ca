//! Facts of faces: what each may say is known from the answers. A change that was not answered was done or was not.

use super::World;
use super::oracle::{Wrong, wrong};
use rialto_model::{ErrorCode, FaceName};
use rialto_node::{FactNow, Facts};
use std::collections::{BTreeMap, BTreeSet};

/// Faces that keep facts.
const FACES: [&str; 2] = ["agh", "a2a"];
/// Their keys.
const KEYS: [&str; 3] = ["card/one", "card/two", "cursor"];

/// What the facts of one network may say, by face and key; what is not here is not there.
#[derive(Debug, Default)]
pub(crate) struct FactBook(BTreeMap<(usize, usize), BTreeSet<Option<u8>>>);

impl FactBook {
    fn may_say(&self, at: (usize, usize)) -> BTreeSet<Option<u8>> {
        self.0.get(&at).cloned().unwrap_or_else(|| BTreeSet::from([None]))
    }

    /// The one thing a fact says, if that is sure.
    fn says(&self, at: (usize, usize)) -> Option<Option<u8>> {
        let all = self.may_say(at);
        all.first().copied().filter(|_| all.len() == 1)
    }
}

impl World {
    fn facts_of(&self, n: usize, face: usize) -> Option<Facts> {
        let network = self.nets[n].handle.as_ref().filter(|network| network.damage().is_none())?;
        Some(network.facts(FaceName::parse(FACES[face]).ok()?))
    }

    /// A face changes a fact: to a value or away; `sure` says that it names what the fact says now, as far as that is known.
    pub(crate) async fn change_fact(
        &mut self,
        n: usize,
        (face, key): (usize, usize),
        value: Option<u8>,
        sure: bool,
    ) -> Result<(), Wrong> {
        let at = (face % FACES.len(), key % KEYS.len());
        let Some(facts) = self.facts_of(n, at.0) else { return Ok(()) };
        let known = self.nets[n].facts.says(at);
        let now = match (sure, known) {
            (false, _) => FactNow::Anything,
            (true, Some(Some(known))) => FactNow::Is(known.to_string().into()),
            (true, Some(None) | None) => FactNow::Absent,
        };
        let result = self
            .drive(async move {
                match value {
                    Some(value) => facts.set_if(KEYS[at.1], &value.to_string(), now).await,
                    None => facts.remove(KEYS[at.1]).await.map(|()| true),
                }
            })
            .await?;
        self.note(&format!("fact {at:?} {value:?}: {:?}", result.as_ref().map_err(|f| f.code.as_str())));
        let book = &mut self.nets[n].facts;
        let mut may = book.may_say(at);
        match result {
            Ok(true) => may = BTreeSet::from([value]),
            Ok(false) if known.is_some() => {
                return wrong("facts", format!("{at:?} says {known:?}, and a change that names that is not done"));
            }
            // It was not absent.
            Ok(false) => {
                may.remove(&None);
            }
            Err(fault) if fault.code == ErrorCode::StorageUnavailable || fault.code == ErrorCode::ShuttingDown => {
                may.insert(value);
            }
            Err(fault) => return wrong("facts", format!("a change of {at:?} is refused: {fault}")),
        }
        book.0.insert(at, may);
        Ok(())
    }

    /// Every fact says what it may say, and nothing else is there.
    pub(crate) async fn compare_facts(&mut self, n: usize) -> Result<(), Wrong> {
        for (face, name) in FACES.iter().enumerate() {
            let Some(facts) = self.facts_of(n, face) else { return Ok(()) };
            let page = self.drive(async move { facts.list("", None, 100).await }).await?;
            let Ok(page) = page else { continue };
            let found: BTreeMap<&str, Option<u8>> =
                page.facts.iter().map(|(key, value)| (key.as_ref(), value.parse().ok())).collect();
            if let Some(strange) = found.keys().find(|key| !KEYS.contains(key)) {
                return wrong("facts", format!("{name} keeps {strange:?}, which nobody set"));
            }
            for (k, key) in KEYS.iter().enumerate() {
                let (is, may) = (found.get(key).copied().flatten(), self.nets[n].facts.may_say((face, k)));
                if !may.contains(&is) {
                    return wrong("facts", format!("{name} {key} says {is:?}, and may say {may:?}"));
                }
                self.nets[n].facts.0.insert((face, k), BTreeSet::from([is]));
            }
        }
        Ok(())
    }
}
