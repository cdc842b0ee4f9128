//! The per-kernel table as Parquet (feature `columns`).
//!
//! Texts are UTF-8 strings, times are 64-bit integers that may be null. Entry point:
//! [`write_parquet`].

use std::io::{self, Write};
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::kernels::{COLUMNS, KernelRow};

/// Columns of text; the rest are times.
const TEXTS: usize = 4;
/// Rows of a row group, the unit that readers load and skip.
const GROUP_ROWS: usize = 1 << 18;

/// Writes the rows as a Parquet file.
///
/// # Errors
/// Errors of the writer.
pub fn write_parquet(rows: &[KernelRow], out: &mut dyn Write) -> io::Result<()> {
    // The file is made in memory, because the library's writer must be `Send` and `out` need not
    // be.
    out.write_all(&file(rows).map_err(io::Error::other)?)
}

fn file(rows: &[KernelRow]) -> Result<Vec<u8>, ParquetError> {
    let field = |(number, name): (usize, &&str)| match number {
        ..TEXTS => format!("REQUIRED BYTE_ARRAY {name} (STRING);"),
        _ => format!("OPTIONAL INT64 {name};"),
    };
    let fields: String = COLUMNS.iter().enumerate().map(field).collect();
    let schema = Arc::new(parse_message_type(&format!("message kernels {{ {fields} }}"))?);
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties)?;
    for rows in rows.chunks(GROUP_ROWS) {
        let mut group = writer.next_row_group()?;
        for number in 0..COLUMNS.len() {
            let Some(mut column) = group.next_column()? else { break };
            if let Some(time) = number.checked_sub(TEXTS) {
                let times: Vec<Option<u64>> = rows.iter().map(|row| row.times()[time]).collect();
                let known: Vec<i64> = times.iter().flatten().map(|ns| ns.cast_signed()).collect();
                let levels: Vec<i16> = times.iter().map(|time| i16::from(time.is_some())).collect();
                column.typed::<Int64Type>().write_batch(&known, Some(&levels), None)?;
            } else {
                let text = |row: &KernelRow| {
                    [&*row.name, &*row.queue, row.model, row.grade][number].into()
                };
                let texts: Vec<ByteArray> = rows.iter().map(text).collect();
                column.typed::<ByteArrayType>().write_batch(&texts, None, None)?;
            }
            column.close()?;
        }
        group.close()?;
    }
    writer.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::tests::row;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    #[test]
    fn a_written_file_has_every_row_and_column() {
        let rows = vec![row("a \"b\", c", 10, 10, 4, 30), row("d", 50, 1, 0, 50)];
        let mut bytes = Vec::new();
        write_parquet(&rows, &mut bytes).unwrap();
        let path =
            std::env::temp_dir().join(format!("tidegate-columns-{}.parquet", std::process::id()));
        std::fs::write(&path, &bytes).unwrap();
        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        let read: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.len(), 2);
        let columns: Vec<(&String, &Field)> = read[0].get_column_iter().collect();
        assert_eq!(columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), COLUMNS);
        assert_eq!(columns[0].1, &Field::Str("a \"b\", c".to_owned()));
        assert_eq!((columns[4].1, columns[8].1), (&Field::Null, &Field::Long(30)));
        assert!(file(&[]).is_ok_and(|empty| empty.starts_with(b"PAR1")));
    }
}
