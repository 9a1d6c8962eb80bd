// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packs the histograms of a run in a data set: a row for each bucket in use. A row group holds one
//! metric, so that who wants one reads no other; the footer lists whose it is. The footer also has
//! a sum of all bytes, as that of the samples does.

use crate::layout::KEY;
use crate::write::{Summed, write_dense};
use crate::{CodecError, GROUP_ROWS};
use crc32fast::Hasher;
use parquet::basic::{Encoding, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use serde::Serialize;
use std::io::Write;
use std::sync::Arc;
use tardy_model::FORMAT;

/// The name of the buckets' numbering, that of [`tardy_model::histogram`]: a later version that has
/// others writes another name.
const BUCKETS: &str = "hdr-2048";

/// What the footer contains in addition to the schema.
#[derive(Clone, Serialize)]
struct About {
    format: u32,
    crc32: u32,
    buckets: &'static str,
    /// Of each row group.
    metrics: Vec<String>,
}

/// One metric of one stream in one trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    pub cell: String,
    pub trial: u32,
    pub stream: String,
    /// Numbers of buckets that hold something, ascending, and how many values each holds.
    pub buckets: Vec<(i32, u64)>,
}

/// A file of histograms that is being written.
pub struct BucketWriter<'a> {
    file: SerializedFileWriter<Summed<'a>>,
    metrics: Vec<String>,
}

impl<'a> BucketWriter<'a> {
    /// Begins a file.
    ///
    /// # Errors
    /// [`CodecError::Io`] if the sink fails.
    pub fn new(to: &'a mut (dyn Write + Send)) -> Result<Self, CodecError> {
        let begun = schema().and_then(|schema| {
            let to = Summed { to, crc: Hasher::new() };
            SerializedFileWriter::new(to, schema, Arc::new(properties()))
        });
        Ok(BucketWriter { file: begun.map_err(CodecError::writing)?, metrics: Vec::new() })
    }

    /// Adds a metric's histograms. Without a bucket in use there is nothing to add.
    ///
    /// # Errors
    /// [`CodecError::Io`] if the sink fails.
    pub fn add(&mut self, metric: &str, counted: &[Counted]) -> Result<(), CodecError> {
        let rows: Vec<(&Counted, i32, u64)> =
            counted.iter().flat_map(|of| of.buckets.iter().map(move |(bucket, n)| (of, *bucket, *n))).collect();
        for part in rows.chunks(GROUP_ROWS) {
            self.group(metric, part).map_err(CodecError::writing)?;
            self.metrics.push(metric.to_owned());
        }
        Ok(())
    }

    fn group(&mut self, metric: &str, rows: &[(&Counted, i32, u64)]) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        let all = 0..rows.len();
        let text = |text: &str| ByteArray::from(text);
        write_dense::<ByteArrayType, _>(&mut group, &all, |row| text(&rows[row].0.cell))?;
        write_dense::<Int32Type, _>(&mut group, &all, |row| i32::try_from(rows[row].0.trial).unwrap_or(i32::MAX))?;
        write_dense::<ByteArrayType, _>(&mut group, &all, |row| text(&rows[row].0.stream))?;
        write_dense::<ByteArrayType, _>(&mut group, &all, |_| text(metric))?;
        write_dense::<Int32Type, _>(&mut group, &all, |row| rows[row].1)?;
        write_dense::<Int64Type, _>(&mut group, &all, |row| i64::try_from(rows[row].2).unwrap_or(i64::MAX))?;
        group.close().map(drop)
    }

    /// Ends the file.
    ///
    /// # Errors
    /// [`CodecError::Io`] if the sink fails.
    pub fn finish(mut self) -> Result<(), CodecError> {
        self.file.flush().map_err(CodecError::Io)?;
        let crc32 = self.file.inner().crc.clone().finalize();
        let mut about = About { format: FORMAT, crc32, buckets: BUCKETS, metrics: std::mem::take(&mut self.metrics) };
        let json = |about: &About| serde_json::to_string(about).map_err(|why| ParquetError::General(why.to_string()));
        let ended = json(&about).and_then(|text| {
            about.crc32 = crc32fast::hash(text.as_bytes());
            self.file.append_key_value_metadata(KeyValue::new(KEY.to_owned(), json(&about)?));
            self.file.into_inner().map(drop)
        });
        ended.map_err(CodecError::writing)
    }
}

fn schema() -> Result<TypePtr, ParquetError> {
    let column = |name: &str, physical, logical| {
        let column = Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED);
        column.with_logical_type(logical).build().map(Arc::new)
    };
    let text = || Some(LogicalType::String);
    let columns = vec![
        column("cell", Physical::BYTE_ARRAY, text())?,
        column("trial", Physical::INT32, None)?,
        column("stream", Physical::BYTE_ARRAY, text())?,
        column("metric", Physical::BYTE_ARRAY, text())?,
        column("bucket", Physical::INT32, None)?,
        column("count", Physical::INT64, None)?,
    ];
    Type::group_type_builder("histograms").with_fields(columns).build().map(Arc::new)
}

fn properties() -> WriterProperties {
    let bucket = ColumnPath::new(vec!["bucket".to_owned()]);
    WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by("tardy".to_owned())
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_column_dictionary_enabled(bucket.clone(), false)
        .set_column_encoding(bucket, Encoding::DELTA_BINARY_PACKED)
        .build()
}
