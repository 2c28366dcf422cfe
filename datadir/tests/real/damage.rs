//! Damages, and what real etcd makes of them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use datadir::{Inspection, Options, Part, State, inspect};

use crate::server::{Etcd, Outcome};

const PATIENCE: Duration = Duration::from_secs(6);

/// A lone member with snapshots, its last WAL file without the preallocated rest.
fn member(minor: &str, keys: u32, snapshot_count: &str) -> Etcd {
    let mut etcd = Etcd::new(minor, "lone");
    etcd.serve("new", &[], &["--snapshot-count", snapshot_count]);
    assert!(etcd.put(0..keys, 200));
    etcd.kill();
    let wal = last_wal(&etcd.data_dir());
    let end = end_of_data(&wal);
    File::options()
        .write(true)
        .open(wal)
        .unwrap()
        .set_len(end.next_multiple_of(4096) + 4096)
        .unwrap();
    etcd
}

fn look(etcd: &Etcd) -> Inspection {
    inspect(&etcd.data_dir(), &Options::default()).unwrap()
}

fn wal_files(data: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(data.join("member/wal"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "wal"));
    files.sort();
    files
}

fn last_wal(data: &Path) -> PathBuf {
    wal_files(data).pop().unwrap()
}

fn db(data: &Path) -> PathBuf {
    data.join("member/snap/db")
}

/// Behind the last byte that is not zero.
fn end_of_data(path: &Path) -> u64 {
    let bytes = fs::read(path).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1
}

fn write(path: &Path, offset: u64, bytes: &[u8]) {
    OpenOptions::new()
        .write(true)
        .open(path)
        .unwrap()
        .write_all_at(bytes, offset)
        .unwrap();
}

fn flip(path: &Path, offset: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[!byte[0]], offset).unwrap();
}

fn cut(path: &Path, len: u64) {
    File::options().write(true).open(path).unwrap().set_len(len).unwrap();
}

/// The beginnings of its records, and where they end.
fn records(path: &Path) -> Vec<u64> {
    let bytes = fs::read(path).unwrap();
    let (mut offsets, mut at) = (Vec::new(), 0);
    while let Some(length) = bytes.get(at..at + 8) {
        let length = u64::from_le_bytes(length.try_into().unwrap());
        if length == 0 {
            break;
        }
        offsets.push(at as u64);
        let padding = if length >> 63 == 1 { length >> 56 & 7 } else { 0 };
        at += 8 + usize::try_from((length & (u64::MAX >> 8)) + padding).unwrap();
    }
    offsets.push(at as u64);
    offsets
}

/// What etcd itself does with a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Real {
    /// Serves all that was acknowledged.
    Whole,
    /// Fails to start, or starts and has lost something, or never serves.
    NotWhole,
}

fn real(etcd: &mut Etcd, keys: u32) -> Real {
    etcd.start("new", &[], &[]);
    let outcome = etcd.outcome(PATIENCE);
    // The last write must be there, and a new one must come to its end.
    let whole = matches!(outcome, Outcome::Serves) && etcd.keys() == Some(keys.into()) && etcd.put(90_000..90_001, 3);
    etcd.kill();
    if whole { Real::Whole } else { Real::NotWhole }
}

/// What is damaged, how, and what is told of it: the part, or nothing when the directory is as good as whole.
type Case = (&'static str, fn(&Path), Option<Part>);

const KEYS: u32 = 230;

const CASES: [Case; 20] = [
    ("nothing", |_| {}, None),
    (
        "a byte of a record in the middle",
        |data| flip(&last_wal(data), middle(data) + 30),
        Some(Part::Wal),
    ),
    (
        "a sector of zeros in the middle",
        |data| write(&last_wal(data), middle(data) & !511, &[0; 512]),
        Some(Part::Wal),
    ),
    (
        "a length of zero in the middle",
        |data| write(&last_wal(data), middle(data), &[0; 8]),
        Some(Part::Wal),
    ),
    (
        "a length that is too large in the middle",
        |data| write(&last_wal(data), middle(data) + 4, &[1]),
        Some(Part::Wal),
    ),
    (
        "no log",
        |data| fs::remove_dir_all(data.join("member/wal")).unwrap(),
        Some(Part::Wal),
    ),
    (
        "an empty file of the log",
        |data| cut(&last_wal(data), 0),
        Some(Part::Wal),
    ),
    (
        "zeros for a file of the log",
        |data| zero(&last_wal(data)),
        Some(Part::Wal),
    ),
    (
        "the older meta page",
        |data| write(&db(data), older_meta(data), &[0; 4096]),
        None,
    ),
    (
        "both meta pages",
        |data| write(&db(data), 0, &[0; 8192]),
        Some(Part::Db),
    ),
    (
        "both meta pages at random",
        |data| write(&db(data), 0, &[0xa5; 8192]),
        Some(Part::Db),
    ),
    ("most of the db", |data| cut(&db(data), 5 * 4096), Some(Part::Db)),
    ("all but its beginning", |data| cut(&db(data), 100), Some(Part::Db)),
    ("an empty db", |data| cut(&db(data), 0), Some(Part::Db)),
    ("no db", |data| fs::remove_file(db(data)).unwrap(), Some(Part::Db)),
    (
        NO_SNAP,
        |data| fs::remove_dir_all(data.join("member/snap")).unwrap(),
        Some(Part::Db),
    ),
    ("no .snap files", |data| remove(&snaps(data)), None),
    (
        "a flipped byte in the newest .snap file",
        |data| flip(snaps(data).last().unwrap(), 40),
        None,
    ),
    (
        "a folder of the file system",
        |data| fs::create_dir(data.join("lost+found")).unwrap(),
        None,
    ),
    (
        "rests of a crash",
        |data| fs::write(data.join("member/snap/tmp7"), "x").unwrap(),
        None,
    ),
];

/// Then etcd up to 3.6 replays a log that is whole: better than what is told of it.
const NO_SNAP: &str = "no snap folder";

pub(crate) fn each_damage_is_told_as_real_etcd_meets_it(minor: &str) {
    let whole = member(minor, KEYS, "100");
    // Anything else would prove nothing.
    assert!(snaps(&whole.data_dir()).len() >= 2);
    let mut wrong = Vec::new();
    for (name, damage, part) in CASES {
        let mut copy = whole.copy();
        damage(&copy.data_dir());
        let seen = look(&copy);
        let told = match &seen.state {
            State::Intact | State::TornTail => None,
            State::Damaged(damage) => Some(damage.part),
            other => panic!("{minor}, {name}: {other:?}"),
        };
        if told != part {
            wrong.push(format!("{name}: told as {:?}", seen.state));
        }
        let expected = if part.is_none() { Real::Whole } else { Real::NotWhole };
        let met = if name == NO_SNAP && minor != "3.7" {
            expected
        } else {
            real(&mut copy, KEYS)
        };
        if met != expected {
            wrong.push(format!("{name}: etcd finds it {met:?}: {}", copy.log()));
        }
    }
    assert!(wrong.is_empty(), "{minor}: {}", wrong.join("\n"));
}

/// The place of the meta page that is not in use.
fn older_meta(data: &Path) -> u64 {
    let file = File::open(db(data)).unwrap();
    let transaction = |page: u64| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, page + 64).unwrap();
        u64::from_ne_bytes(bytes)
    };
    if transaction(0) < transaction(4096) { 0 } else { 4096 }
}

fn zero(path: &Path) {
    let len = fs::metadata(path).unwrap().len();
    cut(path, 0);
    cut(path, len);
}

fn remove(files: &[PathBuf]) {
    for path in files {
        fs::remove_file(path).unwrap();
    }
}

fn snaps(data: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(data.join("member/snap"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "snap"));
    files.sort();
    files
}

/// The beginning of a record in the middle of the last file.
fn middle(data: &Path) -> u64 {
    let records = records(&last_wal(data));
    records[records.len() / 2]
}

pub(crate) fn d04_d31_a_cut_tail_is_torn_as_long_as_the_db_has_not_applied_it(minor: &str) {
    let mut etcd = member(minor, 40, "10000");
    // Stopped in order: the db has applied all of the log.
    etcd.serve("new", &[], &[]);
    etcd.stop();
    let (mut torn, mut behind) = (0, 0);
    for applied_all in [true, false] {
        if !applied_all {
            // The db of before these writes: what comes after it in the log is not applied.
            let old = fs::read(db(&etcd.data_dir())).unwrap();
            etcd.serve("new", &[], &[]);
            assert!(etcd.put(40..60, 200));
            etcd.kill();
            fs::write(db(&etcd.data_dir()), old).unwrap();
        }
        let end = *records(&last_wal(&etcd.data_dir())).last().unwrap();
        for bytes in [1, 7, 8, 9, 40, 100, 511, 512, 513, 700] {
            let mut copy = etcd.copy();
            cut(&last_wal(&copy.data_dir()), end - bytes);
            let seen = look(&copy);
            let reaches = seen.facts.last.unwrap().index >= seen.facts.applied.unwrap();
            match &seen.state {
                State::TornTail | State::Intact if reaches => torn += 1,
                State::Damaged(damage) if !reaches => {
                    assert!(damage.detail.contains("the db has applied"), "{damage:?}");
                    behind += 1;
                }
                other => panic!("{minor}, {bytes} bytes cut: {other:?}"),
            }
            if reaches && bytes % 100 == 0 {
                copy.start("new", &[], &[]);
                let outcome = copy.outcome(PATIENCE);
                assert!(matches!(outcome, Outcome::Serves), "{outcome:?} {}", copy.log());
                assert!(copy.put(90_000..90_001, 3));
            }
        }
    }
    assert!(torn >= 10 && behind >= 5, "{torn} {behind}");
}

pub(crate) fn files_of_the_log_that_are_missing_or_not_continued_are_told(minor: &str) {
    let mut etcd = Etcd::new(minor, "lone");
    etcd.serve(
        "new",
        &[],
        &[
            "--snapshot-count",
            "30",
            "--unsafe-no-fsync",
            "--quota-backend-bytes",
            "1000000000",
        ],
    );
    assert!(etcd.put(0..200, 1_000_000));
    etcd.stop();
    let files = wal_files(&etcd.data_dir());
    assert!(files.len() >= 4, "{files:?}");
    assert_eq!(look(&etcd).state, State::Intact);
    let damage = |etcd: &Etcd| match look(etcd).state {
        State::Damaged(damage) => damage,
        other => panic!("{minor}: {other:?}"),
    };
    let name = |path: &PathBuf| path.file_name().unwrap().to_owned();

    let mut gap = etcd.copy();
    let lost = gap.data_dir().join("member/wal").join(name(&files[1]));
    fs::remove_file(lost).unwrap();
    assert!(damage(&gap).detail.contains("is missing"));
    assert_eq!(real(&mut gap, 200), Real::NotWhole);

    // Purged, as etcd does it: no damage.
    let mut purged = etcd.copy();
    fs::remove_file(purged.data_dir().join("member/wal").join(name(&files[0]))).unwrap();
    assert_eq!(look(&purged).state, State::Intact);
    assert_eq!(real(&mut purged, 200), Real::Whole);

    let mut cut_in_the_middle = etcd.copy();
    let file = cut_in_the_middle
        .data_dir()
        .join("member/wal")
        .join(name(&files[files.len() - 2]));
    let all = records(&file);
    cut(&file, all[all.len() / 2]);
    assert_eq!(damage(&cut_in_the_middle).part, Part::Wal);
    assert_eq!(real(&mut cut_in_the_middle, 200), Real::NotWhole);

    let mut last_gone = etcd.copy();
    fs::remove_file(last_wal(&last_gone.data_dir())).unwrap();
    assert!(damage(&last_gone).detail.contains("the db has applied"));
    assert_eq!(real(&mut last_gone, 200), Real::NotWhole);

    // Without its beginning the log needs a snapshot, up to 3.6 a .snap file.
    let without = purged.copy();
    remove(&snaps(&without.data_dir()));
    if minor == "3.7" {
        assert_eq!(look(&without).state, State::Intact);
    } else {
        assert_eq!(damage(&without).part, Part::Snapshot);
    }
    if minor != "3.7" {
        let mut without = without;
        assert_eq!(real(&mut without, 200), Real::NotWhole, "{}", without.log());
    }
}
