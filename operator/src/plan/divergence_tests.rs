use super::*;

const VOTERS: [Id; 5] = [Id(1), Id(2), Id(3), Id(4), Id(5)];

fn look(answers: &[(u64, i64, i64, u32)]) -> Look {
    Look {
        at: Timestamp::UNIX_EPOCH,
        took: Duration::ZERO,
        asked: Vec::new(),
        answers: answers
            .iter()
            .map(|(id, revision, compact, hash)| Answer {
                id: Id(*id),
                revision: *revision,
                compact: *compact,
                hash: *hash,
            })
            .collect(),
    }
}

type Row<'a> = (&'a str, &'a [Id], &'a [(u64, i64, i64, u32)], Verdict);

#[test]
fn d19_only_equal_revisions_are_compared_and_only_a_majority_of_all_voters_is_believed() {
    let three = &VOTERS[..3];
    let ids = |ids: &[u64]| ids.iter().copied().map(Id).collect::<Vec<_>>();
    let rows: &[Row] = &[
        (
            "all alike",
            three,
            &[(1, 9, 1, 7), (2, 9, 1, 7), (3, 9, 1, 7)],
            Verdict::Equal,
        ),
        (
            "one is not heard",
            three,
            &[(1, 9, 1, 7), (2, 9, 1, 7)],
            Verdict::Incomplete,
        ),
        ("nobody is", three, &[], Verdict::Incomplete),
        (
            "one differs",
            three,
            &[(1, 9, 1, 7), (2, 9, 1, 8), (3, 9, 1, 7)],
            Verdict::Minority(ids(&[2])),
        ),
        (
            "another revision says nothing",
            three,
            &[(1, 9, 1, 7), (2, 8, 1, 8), (3, 9, 1, 7)],
            Verdict::Incomplete,
        ),
        (
            "nor does another compact revision",
            three,
            &[(1, 9, 1, 7), (2, 9, 2, 8), (3, 9, 1, 7)],
            Verdict::Incomplete,
        ),
        (
            "two differ and the third is not heard",
            three,
            &[(1, 9, 1, 7), (2, 9, 1, 8)],
            Verdict::NoMajority(ids(&[1, 2])),
        ),
        (
            "all differ",
            three,
            &[(1, 9, 1, 7), (2, 9, 1, 8), (3, 9, 1, 9)],
            Verdict::NoMajority(ids(&[1, 2, 3])),
        ),
        (
            "of two",
            &VOTERS[..2],
            &[(1, 9, 1, 7), (2, 9, 1, 8)],
            Verdict::NoMajority(ids(&[1, 2])),
        ),
        (
            "two of five",
            &VOTERS,
            &[(1, 9, 1, 7), (2, 9, 1, 8), (3, 9, 1, 7), (4, 9, 1, 7), (5, 9, 1, 6)],
            Verdict::Minority(ids(&[2, 5])),
        ),
        (
            "two against one of five is no majority",
            &VOTERS,
            &[(1, 9, 1, 7), (2, 9, 1, 8), (3, 9, 1, 7)],
            Verdict::NoMajority(ids(&[1, 2, 3])),
        ),
        (
            "one that votes no more does not count",
            three,
            &[(1, 9, 1, 7), (2, 9, 1, 7), (3, 9, 1, 7), (4, 9, 1, 8)],
            Verdict::Equal,
        ),
    ];
    for (what, voters, answers, wanted) in rows {
        assert_eq!(judge(&look(answers), voters), *wanted, "{what}");
    }
}

#[test]
fn clusters_are_spread_over_the_time_between_two_looks() {
    let shares: Vec<f64> = (0..200).map(|n| share(&format!("7f9c{n}-11ee-{}", n * 7919))).collect();
    assert!(shares.iter().all(|share| (0.0..1.0).contains(share)));
    let early = shares.iter().filter(|share| **share < 0.5).count();
    assert!((50..150).contains(&early), "{early} of 200 in the first half");
    assert!((share("a") - share("a")).abs() < f64::EPSILON);
}
