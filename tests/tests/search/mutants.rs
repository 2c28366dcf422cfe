//! The search catches planners with a known defect.

use tests::model::mutants::mutants;

#[test]
fn the_search_catches_every_planner_with_a_known_defect() {
    let mut missed = Vec::new();
    for mutant in mutants() {
        let outcome = mutant.search().run(2, Some(200_000));
        let Some(found) = outcome.found else {
            missed.push(format!(
                "{} ({} states, complete: {})",
                mutant.name, outcome.states, outcome.complete
            ));
            continue;
        };
        println!(
            "{:<72} depth {:>2}, {:>6} states, {:>4.1} s: {}",
            mutant.name,
            found.moves.len(),
            outcome.states,
            outcome.took.as_secs_f64(),
            found.property
        );
        if !found.property.starts_with(mutant.breaks) {
            missed.push(format!(
                "{} breaks {}, which is not meant\n{found}",
                mutant.name, found.property
            ));
        }
    }
    assert!(missed.is_empty(), "not caught as meant:\n{}", missed.join("\n"));
}
