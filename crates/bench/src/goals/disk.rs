//! Goal 11: what one event of a channel takes on disk with a hundred recipients, against one.

use super::start::publish_these;
use super::{Goal, carriers};
use crate::error::{BenchError, Doing};
use crate::lab::Lab;
use crate::report::{Bar, Row};
use crate::rialto::{Network, Rialto, event};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const GOAL: Goal = Goal {
    number: 11,
    name: "disk bytes of a channel event, 100 recipients vs one",
    unit: "bytes/event",
    bar: Bar::at_most(1.05, 1.0),
    larger: &[],
};
const SIZE: usize = 256;
const BLOCK: u64 = 64 << 10;

pub(crate) async fn run(lab: &mut Lab<'_>) -> Result<Vec<Row>, BenchError> {
    let many = lab.options.scaled(100_000, 30_000, 300);
    let folder = lab.folder("disk");
    lab.step("goal 11: a network with one recipient and one with a hundred".to_owned());
    let (node, _) = Rialto::start(&lab.options.program, &folder).await?;
    let (one, hundred) = (node.network("one").await?, node.network("hundred").await?);
    for (network, recipients) in [(&one, 1), (&hundred, 100)] {
        carriers::join(&node, network, "agent:by").await?;
        for n in 0..recipients {
            carriers::join(&node, network, &format!("agent:to{n}")).await?;
        }
    }
    node.stop().await?;
    let empty = data_bytes(&folder)?;
    let with_one = after(lab, &folder, &one, many).await? - empty;
    let with_hundred = after(lab, &folder, &hundred, many).await? - empty - with_one;
    let each = |bytes: f64| bytes / many as f64;
    let row = GOAL.compared(&[(each(with_hundred), each(with_one))]).sized(SIZE);
    Ok(vec![row.noted(format!("{many} events each; log, snapshots and everything else but the search index"))])
}

/// What a channel event takes on the disk, with one recipient.
pub(crate) async fn per_event(program: &Path, folder: &Path, many: u64) -> Result<f64, BenchError> {
    let (node, _) = Rialto::start(program, folder).await?;
    let network = node.network("one").await?;
    carriers::join(&node, &network, "agent:to").await?;
    carriers::join(&node, &network, "agent:by").await?;
    node.stop().await?;
    let empty = data_bytes(folder)?;
    Ok((filled(program, folder, &network, many).await? - empty) / many as f64)
}

/// Publishes to a channel, stops, and gives what the data takes then.
async fn after(lab: &mut Lab<'_>, folder: &Path, network: &Network, many: u64) -> Result<f64, BenchError> {
    lab.step(format!("goal 11: {many} events"));
    filled(&lab.options.program, folder, network, many).await
}

async fn filled(program: &Path, folder: &Path, network: &Network, many: u64) -> Result<f64, BenchError> {
    let (node, _) = Rialto::start(program, folder).await?;
    let text = event(SIZE, "agent:by", "channel/general")?;
    publish_these(&node, network, "by", &text, many).await?;
    node.stop().await?;
    data_bytes(folder)
}

/// Bytes of a data directory that hold something: segments are longer than what is in them.
fn data_bytes(folder: &Path) -> Result<f64, BenchError> {
    let mut sum = 0;
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).doing(format!("read {}", folder.display()))?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if !entry.file_name().to_string_lossy().starts_with("search.db") {
                sum += used(&path).doing(format!("read {}", path.display()))?;
            }
        }
    }
    Ok(sum as f64)
}

/// Bytes up to the last one that is not zero.
fn used(path: &Path) -> std::io::Result<u64> {
    let file = File::open(path)?;
    let mut end = file.metadata()?.len();
    let mut block = vec![0; usize::try_from(BLOCK).unwrap_or(usize::MAX)];
    while end > 0 {
        let from = end.saturating_sub(BLOCK);
        let part = block.get_mut(..usize::try_from(end - from).unwrap_or(0)).unwrap_or_default();
        file.read_exact_at(part, from)?;
        if let Some(at) = part.iter().rposition(|byte| *byte != 0) {
            return Ok(from + at as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_at_the_end_are_not_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("segment");
        for (bytes, expected) in
            [(vec![], 0), (vec![0; 200_000], 0), ([vec![7; 70_000], vec![0; 90_000]].concat(), 70_000)]
        {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(used(&path).unwrap(), expected);
        }
        std::fs::write(dir.path().join("search.db-wal"), "not counted").unwrap();
        std::fs::create_dir(dir.path().join("deep")).unwrap();
        std::fs::write(dir.path().join("deep/file"), "four").unwrap();
        assert_eq!(data_bytes(dir.path()).unwrap(), 70_004.0);
    }
}
