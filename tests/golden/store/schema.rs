// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `tardy schema samples` prints.

use super::FOUR;
use super::samples::columns_of;
use tardy_model::point::Point;
use tardy_model::sample::Batch;
use tardy_store::{samples_schema, sql_view};

#[test]
fn the_view_tells_every_metric_of_the_four_stamps() {
    let view = r#"CREATE OR REPLACE VIEW metrics AS
WITH spans AS (
  SELECT * FROM read_parquet('trials/*/*[0-9]/samples.parquet',
    filename = true, union_by_name = true, hive_partitioning = false)
  UNION ALL BY NAME
  -- a file has only the columns that it needs; this adds the others, without a row
  SELECT
    NULL::BIGINT AS "scheduled..tx_kernel",
    NULL::BIGINT AS "scheduled..rx_kernel",
    NULL::BIGINT AS "scheduled..receive",
    NULL::BIGINT AS "tx_kernel..rx_kernel",
    NULL::BIGINT AS "tx_kernel..receive",
    NULL::BIGINT AS "rx_kernel..receive"
  WHERE false
),
offsets AS (
  -- stamp of each point − scheduled, from the nearest stamp before it that the row has
  SELECT filename, stream, seq, scheduled_ns, outcome, flags, pcp,
    0::BIGINT AS scheduled,
    coalesce(scheduled + "scheduled..tx_kernel") AS tx_kernel,
    coalesce(tx_kernel + "tx_kernel..rx_kernel", scheduled + "scheduled..rx_kernel") AS rx_kernel,
    coalesce(rx_kernel + "rx_kernel..receive", tx_kernel + "tx_kernel..receive", scheduled + "scheduled..receive") AS receive
  FROM spans
),
arrivals AS (
  -- an arrival without a stamp stands right behind the stamped packet before it
  SELECT *, outcome = 'received' OR rx_kernel IS NOT NULL OR receive IS NOT NULL AS arrived, scheduled_ns + rx_kernel AS stamp,
    last_value(stamp IGNORE NULLS) OVER (PARTITION BY filename, stream ORDER BY seq) AS place
  FROM offsets
)
SELECT filename, stream, seq, scheduled_ns, outcome, flags, pcp,
  tx_kernel - scheduled AS "scheduled..tx_kernel",
  rx_kernel - scheduled AS "scheduled..rx_kernel",
  receive - scheduled AS "scheduled..receive",
  rx_kernel - tx_kernel AS "tx_kernel..rx_kernel",
  receive - tx_kernel AS "tx_kernel..receive",
  receive - rx_kernel AS "rx_kernel..receive",
  -- in the order of arrival, within a stream of a trial
  stamp - lag(stamp) OVER (PARTITION BY filename, stream, arrived
    ORDER BY place NULLS FIRST, stamp IS NULL, seq) AS delta
FROM arrivals;
"#;
    assert_eq!(sql_view(&FOUR), view);
}

#[test]
fn the_schema_names_the_columns_of_a_file() {
    let schema = samples_schema();
    assert_eq!(schema["format"], tardy_model::FORMAT);
    let named: Vec<&str> = schema["columns"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(columns_of(&[("ctl", &Batch::default())]), named);
    let view = schema["view"].as_str().unwrap();
    for (i, from) in Point::ALL.into_iter().enumerate() {
        for to in Point::ALL.into_iter().skip(i + 1) {
            assert!(view.contains(&format!("\n  {to} - {from} AS \"{from}..{to}\"")), "{from}..{to}");
        }
    }
    for column in schema["columns"].as_array().unwrap().iter().chain([&schema["stages"], &schema["full_width"]]) {
        let name = column["name"].as_str().unwrap();
        assert_eq!(column["unit"].as_str(), (name.contains("..") || name.ends_with("_ns")).then_some("ns"), "{name}");
    }
}
