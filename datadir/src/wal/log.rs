//! All files of a WAL, read once from the first record to the last, and what they add up to.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::beyond::{self, Beyond};
use super::change::{self, Change, ChangeKind};
use super::record::{Broken, Decoder, Record, Step, kind};
use super::segments::{self, Segment};
use crate::Error;
use crate::input::Input;
use crate::inspection::{HardState, Id, Identity, Position};
use crate::protobuf::{Field, Fields, numbers};

/// Snapshot records that are remembered: the newest ones. Only one that is newer than what is known to be committed is
/// ever passed over, and raft saves none before the last one is committed.
const SNAPSHOTS: usize = 4096;
/// Changes of the membership that are remembered: the newest ones.
const CHANGES: usize = 4096;
/// The files are looked for again so often: a running etcd deletes old ones.
const TRIES: usize = 5;

/// What a WAL adds up to.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) segments: Vec<Segment>,
    pub(crate) identity: Option<Identity>,
    /// The last one; `None` when none was ever saved.
    pub(crate) state: Option<HardState>,
    /// The last entry that was written.
    last_entry: Option<Position>,
    snapshots: VecDeque<Position>,
    changes: VecDeque<Change>,
    /// Changes were forgotten up to this index.
    pub(crate) forgotten: u64,
    /// The highest index before which entries are missing, and where that shows.
    hole: Option<(u64, Place)>,
    /// Where the last file ends.
    pub(crate) tail: Option<Tail>,
    /// Why etcd would refuse it, or lose what it holds.
    pub(crate) fault: Option<Fault>,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) offset: u64,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) place: Option<Place>,
    pub(crate) why: String,
}

/// The end of the last file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Behind the last record.
    pub(crate) place: Place,
    /// The running CRC there.
    pub(crate) crc: u32,
    /// What follows is no record and no zero length.
    pub(crate) torn: bool,
    /// Something that is not zero follows.
    pub(crate) rest: bool,
}

/// Reads the WAL. Content that is wrong is no error, see [`Log::fault`].
pub(crate) fn read(wal: &Path) -> Result<Log, Error> {
    let mut tries = 1;
    loop {
        match read_once(wal) {
            Err(error) if error.is_not_found() && tries < TRIES => tries += 1,
            result => return result,
        }
    }
}

fn read_once(wal: &Path) -> Result<Log, Error> {
    let listing = segments::list(wal)?;
    let mut log = Log {
        segments: listing.segments,
        ..Log::default()
    };
    if listing.strange && log.segments.is_empty() {
        log.fault(None, "none of its files has a name that etcd gives");
    }
    let mut decoder = Decoder::new();
    let files = log.segments.clone();
    for (number, segment) in files.iter().enumerate() {
        let next = files.get(number + 1);
        if !log.file(segment, next.is_none(), &mut decoder)? {
            return Ok(log);
        }
        let expected = segment.sequence.saturating_add(1);
        if next.is_some_and(|next| next.sequence != expected) {
            log.fault(None, format!("the file with number {expected:016x} is missing"));
            return Ok(log);
        }
    }
    Ok(log)
}

impl Log {
    /// False when reading ends here.
    fn file(&mut self, segment: &Segment, is_last: bool, decoder: &mut Decoder) -> Result<bool, Error> {
        let input = Input::open(&segment.path)?;
        decoder.next_file();
        let mut offset = 0;
        let broken = loop {
            let before = decoder.crc;
            match decoder.step(&input, offset)? {
                Step::End => break None,
                Step::Broken(broken) => break Some(broken),
                Step::Record(record, next) => {
                    let place = || Place {
                        path: segment.path.clone(),
                        offset,
                    };
                    let new_crc = record.crc;
                    let is_crc = record.kind == kind::CRC;
                    if is_crc && before != 0 && before != new_crc {
                        self.fault(Some(place()), "it does not continue the file before it");
                        return Ok(false);
                    }
                    if let Err(why) = self.take(&record, &place) {
                        self.fault(Some(place()), why);
                        return Ok(false);
                    }
                    if is_crc {
                        decoder.crc = new_crc;
                    }
                    offset = next;
                }
            }
        };
        let place = Place {
            path: segment.path.clone(),
            offset,
        };
        if !is_last {
            if let Some(broken) = broken {
                self.fault(Some(place), broken.why);
                return Ok(false);
            }
            return Ok(true);
        }
        self.end(&input, place, broken.as_ref(), decoder)?;
        Ok(false)
    }

    /// The last file has no more records.
    fn end(
        &mut self,
        input: &Input,
        place: Place,
        broken: Option<&Broken>,
        decoder: &mut Decoder,
    ) -> Result<(), Error> {
        let crc = decoder.crc;
        let beyond = beyond::look(input, place.offset, decoder.window())?;
        match broken {
            Some(broken) if !broken.torn => self.fault(Some(place.clone()), broken.why),
            Some(_) | None if beyond == Beyond::LaterWrites => self.fault(
                Some(place.clone()),
                "records are destroyed there, and ones that were written later follow: etcd would start without them",
            ),
            Some(_) | None => {}
        }
        self.tail = Some(Tail {
            place,
            crc,
            torn: broken.is_some(),
            rest: beyond != Beyond::Zeros,
        });
        Ok(())
    }

    fn fault(&mut self, place: Option<Place>, why: impl Into<String>) {
        self.fault = Some(Fault { place, why: why.into() });
    }

    fn take(&mut self, record: &Record<'_>, place: &impl Fn() -> Place) -> Result<(), &'static str> {
        match record.kind {
            kind::ENTRY => self.entry(record, place),
            kind::STATE => {
                let [term, vote, commit] = fields(record.data)?;
                self.state = Some(HardState {
                    term,
                    vote: Id(vote),
                    commit,
                });
                Ok(())
            }
            kind::METADATA => {
                let [member, cluster] = fields(record.data)?;
                let identity = Identity {
                    member_id: Id(member),
                    cluster_id: Id(cluster),
                };
                if self.identity.is_some_and(|known| known != identity) {
                    return Err("it names another member or cluster than the records before it");
                }
                self.identity = Some(identity);
                Ok(())
            }
            kind::SNAPSHOT => {
                let [index, term] = fields(record.data)?;
                if self.snapshots.len() == SNAPSHOTS {
                    self.snapshots.pop_front();
                }
                self.snapshots.push_back(Position { term, index });
                Ok(())
            }
            kind::CRC => Ok(()),
            _ => Err("a record is of a kind that etcd does not know"),
        }
    }

    fn entry(&mut self, record: &Record<'_>, place: &impl Fn() -> Place) -> Result<(), &'static str> {
        let (kind, position, content) = entry(record)?;
        let index = position.index;
        let before = self.last_entry.map_or(0, |entry| entry.index);
        if self.last_entry.is_none() || index > before.saturating_add(1) {
            let deeper = self.hole.as_ref().is_none_or(|(known, _)| *known < index);
            if deeper {
                self.hole = Some((index, place()));
            }
        }
        self.last_entry = Some(position);
        while self.changes.back().is_some_and(|change| change.index >= index) {
            self.changes.pop_back();
        }
        if kind != 0 {
            if self.changes.len() == CHANGES {
                self.forgotten = self.changes.pop_front().map_or(self.forgotten, |change| change.index);
            }
            let kind = match content {
                Some(content) if kind == 1 => change::read(content),
                Some(_) | None => ChangeKind::Unknown,
            };
            self.changes.push_back(Change { index, kind });
        }
        Ok(())
    }

    /// Raft has saved something.
    pub(crate) fn is_born(&self) -> bool {
        self.state.is_some()
    }

    /// What the log itself knows to be committed.
    fn commit(&self) -> u64 {
        self.state.map_or(0, |state| state.commit)
    }

    /// The snapshot records that etcd takes for valid, newest first.
    pub(crate) fn snapshots(&self) -> impl Iterator<Item = Position> {
        let commit = self.commit();
        self.snapshots
            .iter()
            .rev()
            .copied()
            .filter(move |snapshot| snapshot.index <= commit)
    }

    /// The one it starts from; the beginning of the log when there is none.
    pub(crate) fn snapshot(&self) -> Position {
        self.snapshots().next().unwrap_or_default()
    }

    /// The end of the log.
    pub(crate) fn last(&self) -> Position {
        let snapshot = self.snapshot();
        self.last_entry
            .filter(|entry| entry.index > snapshot.index)
            .unwrap_or(snapshot)
    }

    /// Changes of the membership after `index`, up to what is known to be committed; `None` when some are forgotten.
    pub(crate) fn changes_after(&self, index: u64, commit: u64) -> Option<impl Iterator<Item = &Change>> {
        (self.forgotten <= index).then(|| {
            self.changes
                .iter()
                .filter(move |change| change.index > index && change.index <= commit)
        })
    }

    /// A snapshot that nothing in the log proves to be committed: written, and killed before the rest was.
    pub(crate) fn unproven_snapshot(&self) -> Option<Position> {
        let commit = self.commit();
        self.snapshots.iter().copied().find(|snapshot| snapshot.index > commit)
    }

    /// Why etcd cannot start from a snapshot of this index.
    pub(crate) fn cannot_start_from(&self, index: u64) -> Option<Fault> {
        let first = self.segments.first()?;
        if first.index > index {
            return Some(Fault {
                place: None,
                why: format!(
                    "its first file begins with entry {}, and a start from snapshot {index} needs those before it",
                    first.index
                ),
            });
        }
        let (hole, place) = self.hole.as_ref()?;
        (*hole > index.saturating_add(1)).then(|| Fault {
            place: Some(place.clone()),
            why: format!("entries before {hole} are missing"),
        })
    }

    /// What the log alone says against a start.
    pub(crate) fn is_inconsistent(&self) -> Option<Fault> {
        let (commit, last) = (self.commit(), self.last());
        (commit > last.index).then(|| Fault {
            place: self.tail.as_ref().map(|tail| tail.place.clone()),
            why: format!(
                "it ends with entry {}, and says itself that {commit} was committed",
                last.index
            ),
        })
    }
}

/// The varint fields of a small record.
fn fields<const N: usize>(data: &[u8]) -> Result<[u64; N], &'static str> {
    numbers(data).map_err(|_| "the content of a record is no message")
}

/// Type, position, and the content when it is there as a whole.
fn entry<'a>(record: &Record<'a>) -> Result<(u64, Position, Option<&'a [u8]>), &'static str> {
    let (mut kind, mut position, mut content) = (0, Position::default(), None);
    for field in Fields(record.data) {
        match field {
            Ok(Field::Number(1, value)) => kind = value,
            Ok(Field::Number(2, value)) => position.term = value,
            Ok(Field::Number(3, value)) => position.index = value,
            Ok(Field::Bytes(4, bytes)) => content = Some(bytes),
            Ok(_) => {}
            // Only its beginning was kept.
            Err(_) if !record.whole => break,
            Err(_) => return Err("an entry is no message"),
        }
    }
    if position.index == 0 {
        return Err("an entry has no index");
    }
    Ok((kind, position, content.filter(|_| record.whole)))
}
