//! The log value on the fault disk: tails, ghosts, damage.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::DIRECT;
use crate::budget::Budget;
use crate::class::Class;
use crate::disk::fault::{Call, FaultDisk};
use crate::log::*;

const DIR: &str = "/log/std";
const BODY: &[u8] = b"a body of some length, the same for every record here";

fn disk_of(seed: u64) -> FaultDisk {
    FaultDisk::new(seed).allow_direct(DIRECT)
}

/// What a flushed write of these bytes takes: whole blocks past the page cache.
fn written_for(bytes: u64) -> u64 {
    if DIRECT { bytes.next_multiple_of(crate::disk::DIRECT_BLOCK as u64) } else { bytes }
}

fn open(disk: &FaultDisk, seed: u64) -> Result<OpenedLog<FaultDisk>, StoreError> {
    let options = LogOptions { first_segment: 8192, max_segment: 8192, free_floor: 0, seed, durable: 0, direct: true };
    Log::open(disk.clone(), Path::new(DIR), Class::STD, options, Arc::new(Budget::new(None)))
}

fn segment() -> PathBuf {
    segment_path(Path::new(DIR), 1)
}

/// Commits one group of one-record batches.
fn commit(log: &mut Log<FaultDisk>, seqs: std::ops::RangeInclusive<u64>, flush: Flush) {
    commit_group(log, 1, seqs, flush);
}

fn commit_for(log: &mut Log<FaultDisk>, network: u32, seqs: std::ops::RangeInclusive<u64>) {
    commit_group(log, network, seqs, Flush::Sync);
}

fn commit_group(log: &mut Log<FaultDisk>, network: u32, seqs: std::ops::RangeInclusive<u64>, flush: Flush) {
    let waiting = |seq| {
        let mut batch = Batch::new(network);
        batch.push(1, 0, seq, 0, BODY).unwrap();
        WaitingBatch::new(batch, 1, flush)
    };
    let mut group: Vec<WaitingBatch> = seqs.map(waiting).collect();
    log.commit(&mut group);
    assert!(group.iter().all(|waiting| matches!(waiting.outcome, Some(Ok(_)))));
}

fn seqs(log: &Log<FaultDisk>) -> Vec<u64> {
    replay(&log.view(), None, 0).unwrap()
}

fn replay(view: &LogView<FaultDisk>, network: Option<u32>, after: Lsn) -> Result<Vec<u64>, StoreError> {
    let mut seqs = Vec::new();
    let visit = &mut |record: crate::record::RecordRef<'_>| {
        seqs.push(record.seq);
        ControlFlow::Continue(())
    };
    view.replay(network, after, visit)?;
    Ok(seqs)
}

fn read(view: &LogView<FaultDisk>, mut asked: std::ops::RangeInclusive<u64>) -> Result<Vec<u64>, StoreError> {
    let mut seqs = Vec::new();
    let visit = &mut |record: crate::record::RecordRef<'_>| {
        seqs.push(record.seq);
        ControlFlow::Continue(())
    };
    let _ = view.read(1, &mut asked, visit)?;
    Ok(seqs)
}

fn batch_size() -> u64 {
    (BATCH_HEAD + format::padded(format::RECORD_HEAD + BODY.len())) as u64
}

fn place(batch: u64) -> u64 {
    SEGMENT_HEAD as u64 + batch * batch_size()
}

#[test]
fn what_was_cut_never_comes_back() {
    let disk = disk_of(1);
    let mut log = open(&disk, 1).unwrap().log;
    commit(&mut log, 1..=2, Flush::Sync);
    commit(&mut log, 3..=4, Flush::Os);
    // The first batch of the unflushed group is lost, the second is whole.
    disk.flip(&segment(), place(2) + 60, 1).unwrap();
    disk.kill();
    let opened = open(&disk, 2).unwrap();
    assert_eq!(seqs(&opened.log), vec![1, 2]);
    let note = opened.notes.first().unwrap();
    assert!(note.what.contains("cut after LSN 2") && note.kept.is_some(), "{note}");
    let mut log = opened.log;
    // As long as the lost one: the whole one would follow it without a gap.
    commit(&mut log, 30..=30, Flush::Os);
    disk.kill();
    assert_eq!(seqs(&open(&disk, 3).unwrap().log), vec![1, 2, 30]);
}

#[test]
fn a_torn_tail_after_a_clean_stop_is_cut_too() {
    let disk = disk_of(1);
    let mut log = open(&disk, 1).unwrap().log;
    commit(&mut log, 1..=2, Flush::Sync);
    log.close().unwrap();
    let mut log = open(&disk, 2).unwrap().log;
    commit(&mut log, 3..=4, Flush::Os);
    disk.flip(&segment(), place(2) + 60, 1).unwrap();
    disk.kill();
    let mut log = open(&disk, 3).unwrap().log;
    assert_eq!(seqs(&log), vec![1, 2]);
    commit(&mut log, 30..=30, Flush::Os);
    disk.kill();
    assert_eq!(seqs(&open(&disk, 4).unwrap().log), vec![1, 2, 30]);
}

#[test]
fn the_last_record_cut_at_every_byte_loses_only_its_batch() {
    for keep in 0..batch_size() {
        let disk = disk_of(1);
        let mut log = open(&disk, 1).unwrap().log;
        commit(&mut log, 1..=3, Flush::Os);
        let file = disk.open(&segment(), true).unwrap();
        file.truncate(place(2) + keep).unwrap();
        disk.kill();
        let mut log = open(&disk, 2).unwrap().log;
        assert_eq!(seqs(&log), vec![1, 2], "{keep} bytes kept");
        commit(&mut log, 3..=3, Flush::Sync);
        assert_eq!(seqs(&log), vec![1, 2, 3]);
    }
}

#[test]
fn every_flipped_bit_below_the_durable_end_is_damage_named() {
    for byte in SEGMENT_HEAD as u64..place(3) {
        let disk = disk_of(1);
        let mut log = open(&disk, 1).unwrap().log;
        for seq in 1..=5 {
            commit(&mut log, seq..=seq, Flush::Sync);
        }
        disk.flip(&segment(), byte, 1 << (byte % 8)).unwrap();
        disk.crash();
        // The log goes on, in another segment.
        let OpenedLog { mut log, notes } = open(&disk, 2).unwrap();
        let damage = notes.first().unwrap_or_else(|| panic!("byte {byte} went unnoticed"));
        assert_eq!(damage.file, segment());
        let batch = (byte - SEGMENT_HEAD as u64) / batch_size();
        assert!((place(batch)..place(batch + 1)).contains(&damage.offset), "byte {byte}: {damage}");
        assert!(disk.exists(&damage.kept.clone().unwrap()).unwrap());
        commit_for(&mut log, 2, 6..=6);
        disk.kill();
        let log = open(&disk, 3).unwrap().log;
        assert_eq!((log.head.number, log.last_lsn), (2, 6));
        // Whoever lost something is told so whenever it is replayed; whoever did not is not.
        let view = log.view();
        let StoreError::Damaged(named) = replay(&view, Some(1), 0).unwrap_err() else { panic!("byte {byte}") };
        assert_eq!(named.file, segment());
        assert_eq!(replay(&view, Some(2), 0).unwrap(), vec![6]);
        assert_eq!(replay(&view, Some(1), batch + 1).unwrap(), (batch + 2..=5).collect::<Vec<_>>());
        let losses = view.losses().unwrap();
        assert_eq!(losses.len(), 1);
        let loss = &losses[0];
        assert_eq!((loss.network, loss.first_lsn, loss.last_lsn), (Some(1), batch + 1, batch + 1), "byte {byte}");
    }
}

#[test]
fn damage_of_which_nobody_can_tell_whose_it_is_stops_everybody_who_needs_it() {
    let disk = disk_of(1);
    let mut log = open(&disk, 1).unwrap().log;
    for seq in 1..=5 {
        commit_for(&mut log, 1 + u32::from(seq == 3), seq..=seq);
    }
    log.close().unwrap();
    // The header of the third batch and its record.
    for at in [place(2) + 10, place(2) + 60] {
        disk.flip(&segment(), at, 1).unwrap();
    }
    let view = open(&disk, 2).unwrap().log.view();
    for network in [1, 2, 7] {
        assert!(matches!(replay(&view, Some(network), 0), Err(StoreError::Damaged(_))), "network {network}");
        assert_eq!(replay(&view, Some(network), 3).unwrap(), if network == 1 { vec![4, 5] } else { vec![] });
    }
    assert_eq!(view.losses().unwrap()[0].network, None);
}

#[test]
fn what_is_written_off_is_passed_over_by_reads_and_never_by_replays() {
    let disk = disk_of(1);
    let mut log = open(&disk, 1).unwrap().log;
    (1..=5).for_each(|seq| commit(&mut log, seq..=seq, Flush::Sync));
    log.close().unwrap();
    disk.flip(&segment(), place(2) + 60, 1).unwrap();
    let log = open(&disk, 2).unwrap().log;
    let view = log.view();
    assert!(read(&view, 1..=5).is_err());
    assert_eq!(view.write_off().unwrap().len(), 1);
    assert!(view.write_off().unwrap().is_empty(), "once is enough");
    drop(log);
    let view = open(&disk, 3).unwrap().log.view();
    assert_eq!(read(&view, 1..=5).unwrap(), vec![1, 2, 4, 5]);
    assert!(view.losses().unwrap().is_empty());
    let mut report = crate::store::VerifyReport::default();
    view.verify(&mut report, &mut |_| {}).unwrap();
    assert_eq!((report.damage.len(), report.written_off.len()), (0, 1));
    assert!(replay(&view, Some(1), 0).is_err());
    // Freed with its segment, the damage is forgotten.
    view.recycle(&|_, _| upkeep::Need::Nothing).unwrap();
    assert!(!disk.exists(&segment()).unwrap());
}

#[test]
fn a_segment_with_damage_is_not_freed_before_it_is_written_off() {
    let disk = disk_of(1);
    let mut log = open(&disk, 1).unwrap().log;
    (1..=5).for_each(|seq| commit(&mut log, seq..=seq, Flush::Sync));
    log.close().unwrap();
    disk.flip(&segment(), place(2) + 60, 1).unwrap();
    let view = open(&disk, 2).unwrap().log.view();
    assert_eq!(view.recycle(&|_, _| upkeep::Need::Nothing).unwrap().segments, 0);
    assert!(disk.exists(&segment()).unwrap());
}

#[test]
fn a_flipped_bit_in_the_segment_header_is_named_and_harms_nobody() {
    for byte in 0..SEGMENT_HEAD as u64 {
        let disk = disk_of(1);
        let mut log = open(&disk, 1).unwrap().log;
        commit(&mut log, 1..=1, Flush::Sync);
        disk.flip(&segment(), byte, 0x10).unwrap();
        disk.kill();
        let opened = open(&disk, 2).unwrap();
        assert_eq!(opened.notes.first().map(|note| note.file.as_path()), Some(segment().as_path()), "byte {byte}");
        assert_eq!(seqs(&opened.log), vec![1]);
    }
}

#[test]
fn a_cut_after_a_clean_stop_is_damage() {
    let disk = disk_of(1);
    let mut log = open(&disk, 1).unwrap().log;
    commit(&mut log, 1..=3, Flush::Sync);
    log.close().unwrap();
    disk.open(&segment(), true).unwrap().truncate(place(2)).unwrap();
    let OpenedLog { mut log, notes } = open(&disk, 2).unwrap();
    let damage = notes.first().unwrap();
    assert_eq!((damage.file.as_path(), damage.offset), (segment().as_path(), place(2)));
    assert!(replay(&log.view(), Some(1), 0).is_err());
    commit_for(&mut log, 2, 4..=4);
    assert_eq!(log.last_lsn, 4, "LSNs are not given twice");
    assert_eq!(replay(&log.view(), None, 3).unwrap(), vec![4]);
}

#[test]
fn a_bad_control_file_is_named_and_the_log_opens() {
    let disk = disk_of(1);
    let mut log = open(&disk, 1).unwrap().log;
    commit(&mut log, 1..=3, Flush::Sync);
    log.close().unwrap();
    let control = Path::new(DIR).join("control");
    disk.flip(&control, 33, 4).unwrap();
    let opened = open(&disk, 2).unwrap();
    assert_eq!(opened.notes.first().unwrap().file, control);
    assert_eq!(seqs(&opened.log), vec![1, 2, 3]);
}

#[test]
fn missing_segments_are_named() {
    for missing in 1..=4 {
        let disk = disk_of(1);
        let mut log = open(&disk, 1).unwrap().log;
        for seq in 1..=200 {
            commit(&mut log, seq..=seq, Flush::Sync);
        }
        assert_eq!(log.head.number, 4);
        log.close().unwrap();
        let path = segment_path(Path::new(DIR), missing);
        disk.remove(&path).unwrap();
        for life in 2..4 {
            let OpenedLog { mut log, notes } = open(&disk, life).unwrap();
            let damage = notes.first().unwrap_or_else(|| panic!("{missing} not missed"));
            assert_eq!((damage.file.as_path(), damage.what.as_str()), (path.as_path(), "segment is missing"));
            let view = log.view();
            let StoreError::Damaged(named) = replay(&view, Some(1), 0).unwrap_err() else { panic!("{missing}") };
            assert_eq!(named.file, path);
            let last = log.last_lsn;
            assert!(last >= 200, "LSNs are not given twice");
            commit_for(&mut log, 2, last + 1..=last + 1);
            assert_eq!(replay(&view, Some(2), last).unwrap(), vec![last + 1]);
            log.close().unwrap();
        }
    }
}

#[test]
fn a_recycled_file_never_shows_its_old_records() {
    let disk = disk_of(1);
    let mut log = open(&disk, 1).unwrap().log;
    let mut last = 0;
    for round in 1..=6 {
        while log.head.number < round * 3 {
            last += 1;
            commit(&mut log, last..=last, Flush::Sync);
        }
        log.view().tidy().unwrap();
        log.view().recycle(&|_, _| upkeep::Need::Nothing).unwrap();
        assert!(log.view().read_inner().spares.iter().any(|spare| spare.capacity == 8192));
        // Into the recycled file, a little.
        while log.head.number < round * 3 + 1 {
            last += 1;
            commit(&mut log, last..=last, Flush::Sync);
        }
        let before = seqs(&log);
        disk.kill();
        log = open(&disk, round + 1).unwrap().log;
        assert_eq!(seqs(&log), before);
        assert_eq!(before.last(), Some(&last));
    }
}

#[test]
fn small_flushes_write_zeros_ahead_once_for_many_and_never_into_what_was_written() {
    let disk = disk_of(1);
    let mut log = open(&disk, 1).unwrap().log;
    commit(&mut log, 1..=1, Flush::Os);
    assert_eq!(*log.writer.written(), log.writer.end(), "nobody waits for a flush of it");
    commit(&mut log, 2..=2, Flush::Sync);
    assert_eq!(*log.writer.written(), 8192, "as far as the segment goes");
    let writes = disk.bytes_written();
    commit(&mut log, 3..=3, Flush::Sync);
    assert_eq!(disk.bytes_written() - writes, written_for(batch_size()));
    assert_eq!(seqs(&log), vec![1, 2, 3]);
    // A file that held records before has been written as far as they went.
    while log.head.number < 4 {
        let next = log.last_lsn + 1;
        commit(&mut log, next..=next, Flush::Sync);
    }
    log.view().recycle(&|_, _| upkeep::Need::Nothing).unwrap();
    while log.head.number < 5 {
        let next = log.last_lsn + 1;
        commit(&mut log, next..=next, Flush::Sync);
    }
    assert!(*log.writer.written() > 8192 - batch_size(), "{}", log.writer.written());
    let (before, writes) = (log.last_lsn, disk.bytes_written());
    commit(&mut log, before + 1..=before + 1, Flush::Sync);
    assert_eq!(disk.bytes_written() - writes, written_for(batch_size()));
}

#[test]
fn a_power_cut_in_the_middle_of_zeros_ahead_loses_nothing_that_was_flushed() {
    for seed in 0..64 {
        let disk = disk_of(seed);
        let mut log = open(&disk, 1).unwrap().log;
        commit(&mut log, 1..=3, Flush::Sync);
        let durable = log.last_lsn;
        disk.fail(crate::disk::fault::Call::Sync, 0, io::ErrorKind::Other, true);
        let mut batch = Batch::new(1);
        batch.push(1, 0, 4, 0, BODY).unwrap();
        let end = log.writer.end();
        *log.writer.written_mut() = end;
        let mut group = [WaitingBatch::new(batch, 1, Flush::Sync)];
        log.commit(&mut group);
        assert!(group.iter().all(|waiting| matches!(waiting.outcome, Some(Err(_)))), "some of it was flushed");
        disk.heal();
        disk.crash();
        let mut log = open(&disk, 2).unwrap().log;
        let left = seqs(&log);
        assert!(left.starts_with(&[1, 2, 3]) && left.len() as u64 >= durable, "seed {seed}: {left:?}");
        let next = left.len() as u64 + 1;
        commit(&mut log, next..=next, Flush::Sync);
        assert_eq!(seqs(&log).last(), Some(&next));
    }
}

#[test]
fn a_crash_between_freeing_and_removing_leaves_no_damage() {
    let disk = disk_of(1);
    let mut log = open(&disk, 1).unwrap().log;
    for seq in 1..=200 {
        commit(&mut log, seq..=seq, Flush::Sync);
    }
    log.view().tidy().unwrap();
    // The control file is renamed, the first segment is not.
    disk.fail(crate::disk::fault::Call::Rename, 1, io::ErrorKind::Other, true);
    assert!(log.view().recycle(&|_, _| upkeep::Need::Nothing).is_err());
    disk.kill();
    let log = open(&disk, 2).unwrap().log;
    let left = seqs(&log);
    assert_eq!((left.last(), left.len() < 60), (Some(&200), true));
}

/// The segment that held them ended before them when the second flush failed, and nobody had them any more.
#[test]
fn what_was_acknowledged_without_a_flush_outlives_flushes_that_fail_in_a_row() {
    let disk = disk_of(1);
    let mut log = open(&disk, 1).unwrap().log;
    commit(&mut log, 1..=1, Flush::Sync);
    commit(&mut log, 2..=3, Flush::Os);
    disk.fail(Call::Sync, 0, io::ErrorKind::Other, false);
    let mut batch = Batch::new(1);
    batch.push(1, 0, 4, 0, BODY).unwrap();
    log.commit(&mut [WaitingBatch::new(batch, 1, Flush::Sync)]);
    assert!(log.broken().is_some());
    for skip in 0..4 {
        disk.fail(Call::Sync, skip, io::ErrorKind::Other, false);
        let _ = log.reopen();
        disk.heal();
    }
    log.reopen().unwrap();
    assert_eq!(seqs(&log), vec![1, 2, 3]);
    disk.crash();
    let log = open(&disk, 2).unwrap().log;
    assert_eq!(seqs(&log), vec![1, 2, 3], "they are flushed now");
}

#[test]
fn whoever_was_not_refused_goes_on_when_the_disk_is_whole_again() {
    let disk = disk_of(1);
    let mut log = open(&disk, 1).unwrap().log;
    commit(&mut log, 1..=1, Flush::Sync);
    commit(&mut log, 2..=3, Flush::Os);
    disk.fail(Call::Sync, 0, io::ErrorKind::Other, true);
    // A flush in the background, in which nobody's batch fails.
    log.commit(&mut [WaitingBatch::new(Batch::new(0), u64::MAX, Flush::Sync)]);
    assert!(log.broken().is_some());
    let batch = |network| {
        let mut batch = Batch::new(network);
        batch.push(1, 0, 1, 0, BODY).unwrap();
        batch
    };
    let mut group = [WaitingBatch::new(batch(2), 1, Flush::Sync)];
    log.commit(&mut group);
    assert!(matches!(group[0].outcome, Some(Err(_))), "the disk is still bad");
    disk.heal();
    commit_for(&mut log, 3, 1..=1);
    assert!(log.broken().is_none());
    let mut group = [WaitingBatch::new(batch(2), 1, Flush::Sync)];
    log.commit(&mut group);
    assert!(matches!(group[0].outcome, Some(Err(_))), "whoever was refused asks to go on first");
    disk.crash();
    assert_eq!(seqs(&open(&disk, 2).unwrap().log), vec![1, 2, 3, 1], "what was acknowledged before is flushed now");
}

/// They are in the new segment before it has its name, so a process that is killed at any moment of it leaves them in one of the two.
#[test]
fn what_was_acknowledged_without_a_flush_survives_a_kill_while_the_log_goes_on() {
    for steps in 0..100 {
        let disk = disk_of(steps);
        let mut log = open(&disk, 1).unwrap().log;
        commit(&mut log, 1..=1, Flush::Sync);
        commit(&mut log, 2..=3, Flush::Os);
        disk.fail(Call::Sync, 0, io::ErrorKind::Other, false);
        let mut batch = Batch::new(1);
        batch.push(1, 0, 4, 0, BODY).unwrap();
        log.commit(&mut [WaitingBatch::new(batch, 1, Flush::Sync)]);
        assert!(log.broken().is_some());
        disk.cut_after(steps);
        let done = log.reopen().is_ok() && !disk.is_cut();
        disk.kill();
        let left = seqs(&open(&disk, 2).unwrap().log);
        assert!(left.starts_with(&[1, 2, 3]), "{steps} changes of the disk, then a kill: {left:?}");
        if done {
            assert_eq!(left, [1, 2, 3], "what was refused is not there");
            assert!(steps > 3, "it takes some steps");
            return;
        }
    }
    panic!("it never ends");
}

fn bodies(log: &Log<FaultDisk>, asked: std::ops::RangeInclusive<u64>) -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    let visit = &mut |record: crate::record::RecordRef<'_>| {
        bodies.push(record.body.to_vec());
        ControlFlow::Continue(())
    };
    let _ = log.view().read(1, &mut asked.clone(), visit).unwrap();
    bodies
}

fn has_bytes(disk: &FaultDisk, path: &Path, sought: &[u8]) -> bool {
    let bytes = crate::disk::read_all(disk, path, 1 << 20).unwrap();
    bytes.windows(sought.len()).any(|bytes| bytes == sought)
}

#[test]
fn what_was_overwritten_in_the_last_block_does_not_come_back_with_the_next_group() {
    for flush in [Flush::Sync, Flush::Os] {
        let disk = disk_of(1);
        let mut log = open(&disk, 1).unwrap().log;
        let mut batch = Batch::new(1);
        batch.push(1, 0, 1, 0, b"a secret that has to go").unwrap();
        let mut group = [WaitingBatch::new(batch, 1, Flush::Sync)];
        log.commit(&mut group);
        commit(&mut log, 2..=2, Flush::Sync);
        let blank = b"#######################";
        assert!(log.view().erase(1, 1, blank).unwrap());
        assert_eq!(bodies(&log, 1..=1), [blank.to_vec()], "readers have it at once");
        commit(&mut log, 3..=3, flush);
        commit(&mut log, 4..=4, Flush::Sync);
        assert!(!has_bytes(&disk, &segment(), b"secret"));
        disk.crash();
        let log = open(&disk, 2).unwrap().log;
        assert_eq!(bodies(&log, 1..=1), [blank.to_vec()]);
        assert_eq!(seqs(&log), vec![1, 2, 3, 4]);
    }
}

#[test]
fn the_fresh_end_is_read_without_the_disk() {
    let disk = disk_of(1);
    let mut log = open(&disk, 1).unwrap().log;
    commit(&mut log, 1..=1, Flush::Sync);
    commit(&mut log, 2..=20, Flush::Sync);
    disk.fail(Call::Read, 0, io::ErrorKind::Other, true);
    assert_eq!(read(&log.view(), 1..=20).unwrap(), (1..=20).collect::<Vec<u64>>());
    disk.heal();
    // Nor does a segment that is full send its readers to the disk.
    while log.head.number == 1 {
        let next = log.last_lsn + 1;
        commit(&mut log, next..=next, Flush::Sync);
    }
    let last = log.last_lsn;
    disk.fail(Call::Read, 0, io::ErrorKind::Other, true);
    assert_eq!(read(&log.view(), last - 5..=last).unwrap(), (last - 5..=last).collect::<Vec<u64>>());
    disk.heal();
    // In a log that was opened again nothing is at hand.
    drop(log);
    let log = open(&disk, 2).unwrap().log;
    disk.fail(Call::Read, 0, io::ErrorKind::Other, true);
    assert!(read(&log.view(), 1..=20).is_err());
}

#[test]
fn a_file_system_that_takes_no_direct_writes_after_all_is_written_through_the_page_cache() {
    let disk = disk_of(1);
    let mut log = open(&disk, 1).unwrap().log;
    assert_eq!(log.writer.is_direct(), DIRECT);
    commit(&mut log, 1..=3, Flush::Sync);
    if DIRECT {
        disk.fail(Call::Write, 0, io::ErrorKind::InvalidInput, false);
    }
    commit(&mut log, 4..=6, Flush::Sync);
    assert!(!log.writer.is_direct() && !log.view().writes_directly.load(Ordering::Relaxed), "and doctor says so");
    commit(&mut log, 7..=9, Flush::Sync);
    disk.crash();
    assert_eq!(seqs(&open(&disk, 2).unwrap().log), (1..=9).collect::<Vec<u64>>());
}

#[test]
fn unflushed_groups_and_flushed_ones_take_turns() {
    for seed in 0..64 {
        let disk = disk_of(seed);
        let mut log = open(&disk, 1).unwrap().log;
        let mut next = 1;
        for turn in 0..12_u64 {
            let (count, flush) = (turn % 5 + 1, if turn % 3 == 2 { Flush::Sync } else { Flush::Os });
            commit(&mut log, next..=next + count - 1, flush);
            next += count;
        }
        // The last of them was flushed, and with it all before.
        disk.crash();
        assert_eq!(seqs(&open(&disk, 2).unwrap().log), (1..next).collect::<Vec<u64>>(), "seed {seed}");
    }
}
