//! Data directories of real etcds of each minor version, read and compared with what etcd itself says and does.

mod damage;
mod facts;
mod recovery;
mod server;

macro_rules! on_each_version {
    ($($module:ident::$test:ident),+ $(,)?) => {
        $(
            mod $test {
                #[test]
                fn on_3_5() {
                    super::$module::$test("3.5");
                }

                #[test]
                fn on_3_6() {
                    super::$module::$test("3.6");
                }

                #[test]
                fn on_3_7() {
                    super::$module::$test("3.7");
                }
            }
        )+
    };
}

on_each_version!(
    facts::what_is_read_is_what_etcd_says_of_itself,
    facts::d25_a_first_start_that_found_nobody_leaves_an_unborn_directory,
    damage::each_damage_is_told_as_real_etcd_meets_it,
    damage::d04_d31_a_cut_tail_is_torn_as_long_as_the_db_has_not_applied_it,
    damage::files_of_the_log_that_are_missing_or_not_continued_are_told,
    recovery::an_extended_commit_keeps_every_acknowledged_write,
);
