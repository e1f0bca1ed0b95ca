//! The search index: what is found, by whom, and what happens when the file is gone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "test code")]

use std::fs;
use std::path::Path;

use rialto_store::StoreError;
use rialto_store::search::{Doc, SearchIndex, SearchQuery, SearchViewer, StreamView};

const GENERAL: u64 = 1;
const SECRET: u64 = 2;

fn doc<'a>(seq: u64, streams: &'a [u64], source: u64, text: &'a str) -> Doc<'a> {
    Doc { seq, streams, source: Some(source), text }
}

fn operator() -> SearchViewer {
    SearchViewer { operator: true, ..SearchViewer::default() }
}

fn sees(stream: u64, seqs: std::ops::RangeInclusive<u64>) -> SearchViewer {
    SearchViewer { streams: vec![StreamView { stream, seqs }], ..SearchViewer::default() }
}

fn ask(index: &SearchIndex, text: &str, viewer: &SearchViewer) -> Vec<u64> {
    let query = SearchQuery { network: 1, text, after: None, before: None, limit: 100, oldest_first: false };
    index.query(&query, viewer).unwrap().seqs
}

fn filled(path: &Path) -> SearchIndex {
    let index = SearchIndex::open(path).unwrap();
    let docs = [
        doc(1, &[GENERAL], 10, "The deploy of Payments failed"),
        doc(2, &[SECRET], 11, "deploy keys are in the vault"),
        doc(3, &[GENERAL], 12, "数据库迁移已经完成，请检查"),
        doc(5, &[GENERAL, SECRET], 10, "deployment again: 100% \"done\""),
        doc(8, &[], 13, "a deploy note to self"),
        doc(9, &[GENERAL], 12, "你好，世界"),
    ];
    index.index(1, &docs, 9).unwrap();
    index.index(2, &[doc(4, &[GENERAL], 10, "deploy in another network")], 4).unwrap();
    index
}

#[test]
fn finds_parts_of_words_in_any_case_newest_first() {
    let dir = tempfile::tempdir().unwrap();
    let index = filled(&dir.path().join("search.db"));
    assert_eq!(ask(&index, "deploy", &operator()), vec![8, 5, 2, 1]);
    assert_eq!(ask(&index, "PAYMENTS deploy", &operator()), vec![1]);
    assert_eq!(ask(&index, "ploymen", &operator()), vec![5]);
    assert_eq!(ask(&index, "\"deploy of\"", &operator()), vec![1]);
    assert_eq!(ask(&index, "100%", &operator()), vec![5]);
    assert_eq!(ask(&index, "nowhere", &operator()), Vec::<u64>::new());
    assert_eq!(ask(&index, "", &operator()), Vec::<u64>::new());
    // Runs of three that occur, in words that do not.
    assert_eq!(ask(&index, "deployed", &operator()), Vec::<u64>::new());
    for nasty in ["\"", "'", "%", "*", "a OR b", "NEAR(", "body:x", "-", "\0\0\0", "((("] {
        let _ = ask(&index, nasty, &operator());
    }
}

#[test]
fn finds_chinese_and_short_words() {
    let dir = tempfile::tempdir().unwrap();
    let index = filled(&dir.path().join("search.db"));
    assert_eq!(ask(&index, "数据库", &operator()), vec![3]);
    assert_eq!(ask(&index, "迁移", &operator()), vec![3]);
    assert_eq!(ask(&index, "你好", &operator()), vec![9]);
    assert_eq!(ask(&index, "你", &operator()), vec![9]);
    assert_eq!(ask(&index, "of", &operator()), vec![8 - 7]);
    assert_eq!(ask(&index, "库迁移已 检查", &operator()), vec![3]);
    assert_eq!(ask(&index, "deploy of", &operator()), vec![1]);
}

#[test]
fn a_viewer_finds_only_what_it_may_see() {
    let dir = tempfile::tempdir().unwrap();
    let index = filled(&dir.path().join("search.db"));
    assert_eq!(ask(&index, "deploy", &sees(GENERAL, 0..=u64::MAX)), vec![5, 1]);
    assert_eq!(ask(&index, "deploy", &sees(SECRET, 0..=u64::MAX)), vec![5, 2]);
    assert_eq!(ask(&index, "deploy", &sees(GENERAL, 2..=u64::MAX)), vec![5], "joined later");
    assert_eq!(ask(&index, "deploy", &sees(GENERAL, 0..=4)), vec![1], "left earlier");
    let twice = SearchViewer {
        streams: vec![StreamView { stream: GENERAL, seqs: 0..=1 }, StreamView { stream: GENERAL, seqs: 5..=9 }],
        ..SearchViewer::default()
    };
    assert_eq!(ask(&index, "deploy", &twice), vec![5, 1]);
    assert_eq!(
        ask(&index, "deploy", &SearchViewer { member: Some(13), ..SearchViewer::default() }),
        vec![8],
        "one's own"
    );
    assert_eq!(ask(&index, "deploy", &SearchViewer::default()), Vec::<u64>::new());
    assert_eq!(ask(&index, "你好", &SearchViewer::default()), Vec::<u64>::new(), "short words too");
    assert_eq!(ask(&index, "deploy", &sees(0, 0..=u64::MAX)), Vec::<u64>::new(), "no stream is no stream");
    // The limit counts what is seen, not what is there.
    let query = SearchQuery { network: 1, text: "deploy", after: None, before: None, limit: 1, oldest_first: false };
    assert_eq!(index.query(&query, &sees(GENERAL, 0..=4)).unwrap().seqs, vec![1]);
    // The viewer of one query is not that of the next.
    assert_eq!(ask(&index, "deploy", &operator()).len(), 4);
    assert_eq!(ask(&index, "deploy", &sees(SECRET, 0..=u64::MAX)), vec![5, 2]);
}

#[test]
fn before_after_and_limit() {
    let dir = tempfile::tempdir().unwrap();
    let index = filled(&dir.path().join("search.db"));
    let ask = |after, before, limit| {
        let query = SearchQuery { network: 1, text: "deploy", after, before, limit, oldest_first: false };
        index.query(&query, &operator()).unwrap()
    };
    assert_eq!(ask(Some(1), None, 9).seqs, vec![8, 5, 2]);
    assert_eq!(ask(None, Some(8), 2).seqs, vec![5, 2]);
    assert_eq!(ask(Some(2), Some(8), 9).seqs, vec![5]);
    assert_eq!(ask(None, Some(0), 9).seqs, Vec::<u64>::new());
    assert_eq!(ask(Some(u64::MAX), None, 9).seqs, Vec::<u64>::new());
    assert_eq!(ask(None, None, 9).indexed_through, 9);
    let oldest = |after, before, limit| {
        let query = SearchQuery { network: 1, text: "deploy", after, before, limit, oldest_first: true };
        index.query(&query, &operator()).unwrap().seqs
    };
    assert_eq!(oldest(None, None, 9), vec![1, 2, 5, 8]);
    assert_eq!(oldest(None, None, 2), vec![1, 2]);
    assert_eq!(oldest(Some(2), Some(8), 1), vec![5]);
}

#[test]
fn progress_is_kept_with_the_texts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("search.db");
    let index = filled(&path);
    index.index(1, &[], 20).unwrap();
    index.index(1, &[doc(3, &[SECRET], 12, "replaced text")], 15).unwrap();
    drop(index);
    let index = SearchIndex::open(&path).unwrap();
    assert_eq!(index.indexed_through(1).unwrap(), 20);
    assert_eq!(index.indexed_through(2).unwrap(), 4);
    assert_eq!(index.indexed_through(3).unwrap(), 0);
    assert_eq!(ask(&index, "数据库", &operator()), Vec::<u64>::new());
    assert_eq!(ask(&index, "replaced", &sees(GENERAL, 0..=99)), Vec::<u64>::new());
    assert_eq!(ask(&index, "replaced", &sees(SECRET, 0..=99)), vec![3]);
    let far = doc(1 << 40, &[GENERAL], 1, "x");
    assert!(matches!(index.index(1, &[far], 1), Err(StoreError::TooLarge { .. })));
    assert!(matches!(index.index(1 << 23, &[], 1), Err(StoreError::TooLarge { .. })));
}

#[test]
fn a_removed_text_leaves_nothing_in_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("search.db");
    let index = filled(&path);
    index.index(1, &[doc(30, &[GENERAL], 1, "zebraxylophone secret quokka")], 30).unwrap();
    assert_eq!(ask(&index, "xylophone", &operator()), vec![30]);
    assert!(index.remove(1, 30).unwrap());
    assert!(!index.remove(1, 30).unwrap());
    assert_eq!(ask(&index, "xylophone", &operator()), Vec::<u64>::new());
    assert_eq!(ask(&index, "deploy", &operator()).len(), 4);
    for file in fs::read_dir(dir.path()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        for part in [&b"zebraxylo"[..], b"quokka", b"quo", b"bra"] {
            assert!(!bytes.windows(part.len()).any(|window| window == part), "{:?}", String::from_utf8_lossy(part));
        }
    }
    index.remove_network(1).unwrap();
    assert_eq!(ask(&index, "deploy", &operator()), Vec::<u64>::new());
    assert_eq!((index.indexed_through(1).unwrap(), index.indexed_through(2).unwrap()), (0, 4));
}

#[test]
fn a_deleted_or_damaged_file_is_begun_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("search.db");
    drop(filled(&path));
    fs::remove_file(&path).unwrap();
    assert_eq!(SearchIndex::open(&path).unwrap().indexed_through(1).unwrap(), 0);
    for bytes in
        [vec![0x5A; 40_000], b"not a database, but long enough to be taken for a header of one.....".repeat(100)]
    {
        fs::write(&path, bytes).unwrap();
        let index = SearchIndex::open(&path).unwrap();
        assert_eq!(index.indexed_through(1).unwrap(), 0);
        index.index(1, &[doc(1, &[GENERAL], 1, "fed again")], 1).unwrap();
        assert_eq!(ask(&index, "again", &operator()), vec![1]);
    }
}

/// Every bit of the header of the file: whatever SQLite calls it, the index is there, whole or empty.
#[test]
fn no_bit_of_the_header_keeps_the_index_from_opening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("search.db");
    let index = SearchIndex::open(&path).unwrap();
    index.index(1, &[Doc { seq: 1, streams: &[1], source: None, text: "hello" }], 1).unwrap();
    index.close().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    for bit in 0..100 * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let copy = dir.path().join(format!("copy-{bit}.db"));
        std::fs::write(&copy, damaged).unwrap();
        let index = SearchIndex::open(&copy).unwrap_or_else(|e| panic!("bit {bit}: {e}"));
        assert!(index.indexed_through(1).unwrap() <= 1, "bit {bit}");
    }
}

#[test]
fn damage_met_while_running_ends_in_an_empty_index() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("search.db");
    let index = SearchIndex::open(&path).unwrap();
    let text = "many different words that fill some pages ".repeat(20);
    let docs: Vec<Doc<'_>> = (1..=400).map(|seq| doc(seq, &[GENERAL], 1, &text)).collect();
    index.index(1, &docs, 400).unwrap();
    drop(index);
    // Everything but the first page.
    let mut bytes = fs::read(&path).unwrap();
    for byte in &mut bytes[4096..] {
        *byte = 0xFF;
    }
    fs::write(&path, bytes).unwrap();
    let index = SearchIndex::open(&path).unwrap();
    let query =
        SearchQuery { network: 1, text: "different", after: None, before: None, limit: 10, oldest_first: false };
    let answer = index.query(&query, &operator()).unwrap();
    assert_eq!((answer.seqs.len(), answer.indexed_through), (0, 0));
    index.index(1, &docs, 400).unwrap();
    assert_eq!(index.query(&query, &operator()).unwrap().seqs.len(), 10);
}

#[test]
fn asking_does_not_wait_for_indexing() {
    let dir = tempfile::tempdir().unwrap();
    let index = SearchIndex::open(dir.path().join("search.db")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for seq in 1..=200 {
                index.index(1, &[doc(seq, &[GENERAL], 1, "counting words")], seq).unwrap();
            }
        });
        let mut last = 0;
        while last < 200 {
            let query = SearchQuery {
                network: 1,
                text: "counting",
                after: None,
                before: None,
                limit: 1000,
                oldest_first: false,
            };
            let answer = index.query(&query, &operator()).unwrap();
            assert_eq!(answer.seqs.len() as u64, answer.indexed_through);
            assert!(answer.indexed_through >= last);
            last = answer.indexed_through;
        }
    });
}
