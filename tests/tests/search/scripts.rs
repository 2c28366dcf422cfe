//! Scripts say what they do, and fail when they end otherwise.

use tests::model::script::Script;

#[test]
fn a_script_reads_what_it_prints_and_shows_what_the_operator_does() {
    let text = "# From nothing to three, and a Pod lost.\ncluster 3 3.6.16 disk\nsettle\nexpect voters=3 learners=0 whole=yes\n\
                expect calls=4\nlose-pod c-002\nsettle\nexpect calls=0 pods=3\noperator looks\n";
    let script = Script::parse(text).unwrap();
    assert_eq!(script.to_string(), text);
    let transcript = script.run().unwrap_or_else(|failure| panic!("{failure}"));
    println!("{transcript}");
    assert!(transcript.contains("RecordSeed c-001"), "{transcript}");
    assert!(transcript.contains("CreatePod c-002"), "{transcript}");
}

#[test]
fn a_script_that_ends_otherwise_fails_with_its_line() {
    let failure = Script::parse("cluster 1 3.6.16 memory\nsettle\nexpect voters=2\n")
        .unwrap()
        .run()
        .unwrap_err();
    assert_eq!(failure.line, 3);
    assert!(failure.what.contains("voters is 1"), "{failure}");
    assert_eq!(Script::parse("settle\nlose-pot c-001").unwrap_err().line, 2);
}
