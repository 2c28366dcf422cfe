#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;

/// One cell of the table: everything that [`Facts`] has, owned.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "as in Facts")]
struct Cell {
    state: State,
    started: bool,
    has_nonce: bool,
    recorded: Recorded,
    stray: bool,
    start: Option<StartKind>,
    hold: bool,
    quarantine: bool,
    fence: Fence,
    recovery: Recovery,
    exit: LastExit,
}

impl Cell {
    fn decide(&self) -> Decision {
        decide(Facts {
            state: &self.state,
            started: self.started,
            has_nonce: self.has_nonce,
            recorded: self.recorded,
            stray: self.stray,
            start: self.start,
            hold: self.hold.then_some("maintenance"),
            quarantine: self.quarantine,
            fence: self.fence,
            recovery: self.recovery,
            exit: &self.exit,
        })
    }
}

fn states() -> [State; 7] {
    [
        State::Unborn,
        State::Intact,
        State::TornTail,
        State::Damaged {
            detail: "a gap in the WAL".to_owned(),
        },
        State::Foreign {
            detail: "of another cluster".to_owned(),
        },
        State::InUse,
        State::Unreadable {
            error: "EIO".to_owned(),
        },
    ]
}

fn exits() -> [LastExit; 3] {
    [
        LastExit::MayRestart,
        LastExit::Removed,
        LastExit::Damage {
            class: "WalCorrupt".to_owned(),
        },
    ]
}

/// Every cell there is.
fn table() -> Vec<Cell> {
    let recoveries = [Recovery::None, Recovery::Ordered, Recovery::Forsaken];
    let fences = [Fence::Down, Fence::Stands, Fence::Wanted, Fence::ToGo];
    let with = |cell: &Cell, fence, recovery| Cell {
        fence,
        recovery,
        ..cell.clone()
    };
    let plain = plain();
    let each = |recovery| fences.map(move |fence| (fence, recovery));
    let all: Vec<_> = recoveries.into_iter().flat_map(each).collect();
    let cells = |cell| all.iter().map(move |(fence, recovery)| with(cell, *fence, *recovery));
    plain.iter().flat_map(cells).collect()
}

/// Those without a fence and a recovery.
fn plain() -> Vec<Cell> {
    let mut cells = Vec::new();
    for state in states() {
        for recorded in [Recorded::Absent, Recorded::Ours, Recorded::NotOurs] {
            for start in [None, Some(StartKind::Seed), Some(StartKind::Join)] {
                for exit in exits() {
                    for bits in 0..32_u8 {
                        let bit = |number: u8| bits & (1 << number) != 0;
                        cells.push(Cell {
                            state: state.clone(),
                            started: bit(0),
                            has_nonce: bit(1),
                            recorded,
                            stray: bit(2),
                            start,
                            hold: bit(3),
                            quarantine: bit(4),
                            fence: Fence::Down,
                            recovery: Recovery::None,
                            exit: exit.clone(),
                        });
                    }
                }
            }
        }
    }
    cells
}

/// A rule as a person reads it from the design's table: which cells, and what for them.
type Rule = (&'static str, fn(&Cell) -> bool, fn(&Cell) -> Decision);

/// The first rule that fits a cell says what must be decided.
const RULES: &[Rule] = &[
    (
        "unreadable: look again, whatever else",
        |c| is(c, "Unreadable"),
        |_| Decision::Retry("EIO".to_owned()),
    ),
    (
        "a fence is ordered: whatever else",
        |c| c.fence == Fence::Wanted,
        |_| Decision::PutFence,
    ),
    (
        "in use and to be recovered",
        |c| is(c, "InUse") && c.recovery != Recovery::None,
        |_| Decision::Stop(Why::Recovery),
    ),
    (
        "a recovery is to begin or to go on, whatever the directory looks like",
        |c| c.recovery == Recovery::Ordered,
        |_| Decision::Recover,
    ),
    (
        "a recovery has begun and nobody knows of it",
        |c| c.recovery == Recovery::Forsaken,
        |_| Decision::Wait(Why::Recovery),
    ),
    ("a fence is lifted", |c| c.fence == Fence::ToGo, |_| Decision::LiftFence),
    (
        "in use and held",
        |c| is(c, "InUse") && c.hold,
        |_| Decision::Stop(held()),
    ),
    (
        "in use and fenced",
        |c| is(c, "InUse") && c.fence == Fence::Stands,
        |_| Decision::Stop(Why::Fenced),
    ),
    (
        "in use and to be set aside",
        |c| is(c, "InUse") && c.quarantine,
        |_| Decision::Stop(Why::Quarantine),
    ),
    ("in use: leave it alone", |c| is(c, "InUse"), |_| Decision::Observe),
    ("to be set aside", |c| c.quarantine, |_| Decision::SetAside),
    (
        "unborn, started: the data are gone",
        |c| is(c, "Unborn") && c.started,
        |_| Decision::Renew,
    ),
    (
        "unborn, no nonce yet",
        |c| is(c, "Unborn") && !c.has_nonce,
        |_| Decision::Renew,
    ),
    (
        "unborn, leavings of nobody knows whom",
        |c| is(c, "Unborn") && c.stray,
        |_| Decision::Renew,
    ),
    (
        "unborn, another's record",
        |c| is(c, "Unborn") && c.recorded == Recorded::NotOurs,
        |_| Decision::Renew,
    ),
    ("held, in any other state", |c| c.hold, |_| Decision::Wait(held())),
    (
        "fenced, in any other state",
        |c| c.fence == Fence::Stands,
        |_| Decision::Wait(Why::Fenced),
    ),
    (
        "unborn, nothing ordered",
        |c| is(c, "Unborn") && c.start.is_none(),
        |_| Decision::Wait(Why::NoOrder),
    ),
    (
        "unborn, ordered, but etcd says removed",
        |c| is(c, "Unborn") && c.exit == LastExit::Removed,
        |_| Decision::Wait(Why::Removed),
    ),
    (
        "unborn, Seed",
        |c| is(c, "Unborn") && c.start == Some(StartKind::Seed),
        |_| Decision::Once(StartKind::Seed),
    ),
    (
        "unborn, Join",
        |c| is(c, "Unborn") && c.start == Some(StartKind::Join),
        |_| Decision::Once(StartKind::Join),
    ),
    (
        "damaged",
        |c| is(c, "Damaged"),
        |_| Decision::Wait(Why::Damaged("a gap in the WAL".to_owned())),
    ),
    (
        "foreign",
        |c| is(c, "Foreign"),
        |_| Decision::Wait(Why::Foreign("of another cluster".to_owned())),
    ),
    (
        "whole, not recorded",
        |c| c.recorded == Recorded::Absent,
        |_| Decision::Wait(Why::NotRecorded),
    ),
    (
        "whole, another's record",
        |c| c.recorded == Recorded::NotOurs,
        |_| Decision::Wait(Why::Foreign("its recorded identity is not this member's".to_owned())),
    ),
    (
        "whole and ours, etcd says removed",
        |c| c.exit == LastExit::Removed,
        |_| Decision::Wait(Why::Removed),
    ),
    (
        "whole and ours, etcd says damaged",
        |c| c.exit != LastExit::MayRestart,
        |_| Decision::Wait(Why::Damaged("etcd ended with WalCorrupt".to_owned())),
    ),
    (
        "whole and ours: at once, no question asked",
        |_| true,
        |_| Decision::Repeatable,
    ),
];

fn is(cell: &Cell, name: &str) -> bool {
    format!("{:?}", cell.state).split_whitespace().next() == Some(name)
}

fn held() -> Why {
    Why::Held("maintenance".to_owned())
}

#[test]
fn every_cell_of_the_table_is_decided_by_its_rule() {
    let mut used = vec![0; RULES.len()];
    for cell in table() {
        let fits = RULES.iter().position(|(_, fits, _)| fits(&cell));
        let (name, _, wanted) = RULES[fits.unwrap_or_default()];
        used[fits.unwrap_or_default()] += 1;
        assert_eq!(cell.decide(), wanted(&cell), "{name}: {cell:?}");
    }
    for ((name, _, _), cells) in RULES.iter().zip(used) {
        assert!(cells > 0, "no cell is for the rule {name:?}");
    }
}

#[test]
fn d26_d27_a_first_start_needs_an_order_for_this_very_directory_and_one_that_never_started() {
    for cell in table() {
        if let Decision::Once(kind) = cell.decide() {
            assert_eq!(cell.start, Some(kind), "{cell:?}");
            assert!(
                cell.state == State::Unborn && !cell.started && cell.has_nonce,
                "{cell:?}"
            );
            assert!(
                !cell.hold && !cell.quarantine && cell.fence == Fence::Down && cell.recovery == Recovery::None,
                "{cell:?}"
            );
        }
    }
}

#[test]
fn etcd_only_ever_starts_again_on_whole_data_that_are_recorded_as_ours() {
    for cell in table() {
        if cell.decide() == Decision::Repeatable {
            assert!(matches!(cell.state, State::Intact | State::TornTail), "{cell:?}");
            assert!(
                cell.recorded == Recorded::Ours && !cell.hold && cell.exit == LastExit::MayRestart,
                "{cell:?}"
            );
            assert!(cell.fence == Fence::Down && cell.recovery == Recovery::None, "{cell:?}");
        }
    }
}

#[test]
fn a_running_etcd_is_never_disturbed_but_for_a_hold_a_fence_a_recovery_or_a_quarantine() {
    for cell in plain()
        .into_iter()
        .filter(|cell| cell.state == State::InUse && !cell.hold && !cell.quarantine)
    {
        assert_eq!(cell.decide(), Decision::Observe, "{cell:?}");
    }
}

#[test]
fn nothing_with_a_wal_is_set_aside_without_a_quarantine() {
    for cell in table()
        .into_iter()
        .filter(|cell| cell.state != State::Unborn && !cell.quarantine)
    {
        assert!(
            !matches!(cell.decide(), Decision::SetAside | Decision::Renew),
            "{cell:?}"
        );
    }
}

#[test]
fn ends_that_a_new_start_may_mend_are_told_from_those_it_would_hide() {
    let held = [
        ("Removed", LastExit::Removed),
        (
            "WalCorrupt",
            LastExit::Damage {
                class: "WalCorrupt".to_owned(),
            },
        ),
        (
            "LostRaftLog",
            LastExit::Damage {
                class: "LostRaftLog".to_owned(),
            },
        ),
    ];
    for (class, wanted) in held {
        assert_eq!(LastExit::of(class), wanted);
    }
    for class in [
        "Clean",
        "OutOfMemory",
        "Hung",
        "Killed",
        "NoPeers",
        "DiskFull",
        "Panic",
        "Unknown",
        "OfANewerOne",
        "",
    ] {
        assert_eq!(LastExit::of(class), LastExit::MayRestart, "{class}");
    }
}
