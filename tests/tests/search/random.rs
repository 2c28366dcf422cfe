//! Random schedules with many faults, up to seven members; what fails is shrunk to a script that can be kept. The same ones
//! each time; `PROPTEST_RNG_SEED=<number>` draws others.

use operator::plan::facts::{Medium, Version};
use proptest::{
    prelude::*,
    test_runner::{RngSeed, TestRunner},
};
use tests::model::{
    moves::Move,
    script::{Line, Script},
};

fn name() -> impl Strategy<Value = String> {
    (1_u8..12).prop_map(|number| format!("c-{number:03}"))
}

fn of_a_member() -> impl Strategy<Value = Move> {
    let kinds: Vec<fn(String) -> Move> = vec![
        Move::LosePod,
        Move::EvictPod,
        Move::LoseDisk,
        Move::DamageDisk,
        Move::HideDisk,
        Move::ShowDisk,
        Move::KillEtcd,
        Move::Stick,
        Move::Unstick,
        Move::CutOff,
        Move::Hear,
        Move::Isolate,
        Move::Rejoin,
        Move::DelayReport,
        Move::DeliverReport,
        Move::DeleteMember,
        Move::RemoveByHand,
        Move::Lead,
    ];
    (proptest::sample::select(kinds), name()).prop_map(|(kind, name)| kind(name))
}

fn of_the_operator() -> impl Strategy<Value = Move> {
    prop_oneof![
        Just(Move::Look),
        Just(Move::Act),
        Just(Move::ActOnMembership),
        Just(Move::LoseAnswer),
        Just(Move::AnswerLate),
        Just(Move::CarryOut),
        Just(Move::GiveUp),
        Just(Move::Crash),
        Just(Move::HandOver),
        Just(Move::StallWatches),
        Just(Move::ResumeWatches),
        (0_usize..6).prop_map(Move::LookAndDie),
    ]
}

fn line(sizes: &'static [u32]) -> impl Strategy<Value = Line> {
    prop_oneof![
        8 => Just(Line::Turn),
        2 => name().prop_map(|name| Line::Move(Move::Go(name))),
        2 => prop_oneof![Just(Move::Moment), Just(Move::Minute)].prop_map(Line::Move),
        4 => of_the_operator().prop_map(Line::Move),
        4 => of_a_member().prop_map(Line::Move),
        1 => proptest::sample::select(sizes).prop_map(|size| Line::Move(Move::Scale(size))),
    ]
}

fn script(medium: Medium, sizes: &'static [u32], most: usize) -> impl Strategy<Value = Script> {
    let versions = ["3.5.35", "3.6.16", "3.7.3"].map(|text| Version::parse(text).unwrap());
    let begin = (
        proptest::sample::select(sizes),
        proptest::sample::select(versions.to_vec()),
        any::<bool>(),
    );
    (begin, proptest::collection::vec(line(sizes), 0..most)).prop_map(move |((replicas, version, formed), middle)| {
        let mut lines = vec![Line::Cluster {
            replicas,
            version,
            medium,
        }];
        if formed {
            lines.push(Line::Settle);
        }
        lines.extend(middle);
        lines.push(Line::End);
        Script(lines)
    })
}

fn all_end_well(medium: Medium, sizes: &'static [u32], cases: u32) {
    let given = ProptestConfig::default();
    let rng_seed = match given.rng_seed {
        RngSeed::Random => RngSeed::Fixed(1),
        fixed @ RngSeed::Fixed(_) => fixed,
    };
    let mut runner = TestRunner::new(ProptestConfig {
        cases,
        max_shrink_iters: 4_000,
        failure_persistence: None,
        rng_seed,
        ..given
    });
    let result = runner.run(&script(medium, sizes, 80), |script| {
        script
            .run()
            .map(drop)
            .map_err(|failure| TestCaseError::fail(failure.what))
    });
    if let Err(proptest::test_runner::TestError::Fail(why, script)) = result {
        let failure = script.run().unwrap_err();
        panic!("{why}\n--- the script:\n{script}--- what happened:\n{failure}");
    }
}

#[test]
fn whatever_happens_to_members_on_disks_the_target_is_reached_where_a_quorum_has_its_data() {
    all_end_well(Medium::Disk, &[1, 2, 3, 5, 7], 120);
}

#[test]
#[ignore = "open: finds a deleted member in memory without its Pod, see regressions"]
fn whatever_happens_to_members_in_memory_the_target_is_reached_where_a_quorum_has_its_data() {
    all_end_well(Medium::Memory, &[1, 3, 5, 7], 120);
}

#[test]
#[ignore = "open: finds two defects of a pause, see regressions"]
fn whatever_happens_to_a_cluster_that_is_paused_and_resumed_it_ends_as_it_is_wanted() {
    all_end_well(Medium::Disk, &[0, 1, 3, 0, 5], 60);
}
