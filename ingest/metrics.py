"""Every metric of the ingest stage, declared once; names follow the Prometheus conventions and docs/metrics.md prints this list."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics

disable_created_metrics()  # type: ignore[no-untyped-call]

# collector
RECORDS_RECEIVED = Counter("forewarn_collector_samples_total", "Records that a source gave", ["source"])
RECORDS_EMITTED = Counter("forewarn_collector_emitted_records_total", "Records that the spool took", ["source"])
RECORDS_REJECTED = Counter("forewarn_collector_rejected_records_total", "Records that cannot be sent", ["source", "reason"])
RECORDS_DROPPED = Counter("forewarn_collector_dropped_records_total", "Records that the spool did not take", ["source", "reason"])
RECORDS_HELD = Gauge("forewarn_collector_held_records", "Events that wait in memory because the spool's disk is full")
READ_ERRORS = Counter("forewarn_collector_read_errors_total", "Reads that gave nothing", ["source", "reason"])
READS_SKIPPED = Counter("forewarn_collector_skipped_reads_total", "Ticks passed over because the read before was not over", ["source"])
READ_SECONDS = Histogram("forewarn_collector_read_duration_seconds", "Duration of a read", ["source"])
RELOADS = Counter("forewarn_collector_reloads_total", "Configurations read again while running, taken and refused", ["result"])
LAST_SUCCESS = Gauge("forewarn_collector_last_success_timestamp_seconds", "Wall time of the last good read", ["source"])

# spool and publisher
SPOOL_BYTES = Gauge("forewarn_spool_bytes", "Size of the spool on disk")
SPOOL_OLDEST_AGE = Gauge("forewarn_spool_oldest_record_age_seconds", "Age of the oldest message that the bus has not taken")
SPOOL_DROPPED = Counter("forewarn_spool_dropped_records_total", "Records dropped by the spool", ["reason"])
SPOOL_TORN = Counter("forewarn_spool_torn_segments_total", "Segments whose end could not be read after a crash")
PUBLISHED = Counter("forewarn_bus_published_messages_total", "Messages acknowledged by the bus", ["table"])
PUBLISH_FAILURES = Counter("forewarn_bus_publish_failures_total", "Attempts to publish that failed", ["reason"])
PUBLISH_REFUSED = Counter("forewarn_bus_refused_records_total", "Records that the bus will never take", ["reason"])

BUS_LAG = Gauge("forewarn_bus_lag_messages", "Messages of the partitions of this writer that it has not read", ["table"])
BUS_PARTITIONS = Gauge("forewarn_bus_partitions", "Partitions that this writer holds")
BUS_OLDEST_AGE = Gauge(
    "forewarn_bus_oldest_unread_age_seconds", "Age of the newest message read of the partition that is furthest behind; 0 without lag"
)
BUS_IDLE_LAG = Gauge("forewarn_bus_idle_lag_messages", "Messages that wait while this writer holds no partition; 0 while it holds some")
BUS_REJOINED = Counter("forewarn_bus_rejoined_total", "Times that a writer joined anew because partitions had no reader")

# writer
WRITER_RECEIVED = Counter("forewarn_writer_received_records_total", "Records read from the bus", ["table"])
WRITER_WRITTEN = Counter("forewarn_writer_written_records_total", "Records committed to the lake", ["table"])
WRITER_DUPLICATES = Counter("forewarn_writer_duplicate_messages_total", "Messages already in the lake", ["table"])
WRITER_KNOWN_EVENTS = Counter("forewarn_writer_known_events_total", "Events of a log that was read again, already in the lake")
WRITER_REJECTED = Counter(
    "forewarn_writer_rejected_messages_total", "Messages kept out of the lake, whole or some rows of them", ["reason"]
)
WRITER_NEWER = Counter("forewarn_writer_newer_version_messages_total", "Messages of a newer minor version, read without their new fields")
WRITER_FAILURES = Counter("forewarn_writer_failures_total", "Passes that failed and are repeated", ["reason"])
WRITER_OLDEST_AGE = Gauge("forewarn_writer_oldest_unwritten_age_seconds", "Time since the oldest message that is read and not in the lake")
COMMIT_SECONDS = Histogram("forewarn_lake_commit_duration_seconds", "Duration of one append to the lake", ["table"])

# exporter pages
EXPORTER_SCRAPES = Counter("forewarn_exporter_scrapes_total", "Scrapes of exporter pages", ["state"])
EXPORTER_REJECTED = Counter("forewarn_exporter_rejected_lines_total", "Lines of exporter pages that cannot be read", ["reason"])
EXPORTER_UNKNOWN = Counter("forewarn_exporter_unknown_samples_total", "Samples under a name that the field table does not have")
EXPORTER_TRUNCATED = Counter("forewarn_exporter_truncated_pages_total", "Pages that were cut")
EXPORTER_CONFLICTS = Counter("forewarn_exporter_duplicate_conflicts_total", "Series that one page gave two values")
EXPORTER_FAILURES = Counter("forewarn_exporter_failures_total", "Scrapes that ended in an error of ours")
EXPORTER_LATE = Counter("forewarn_exporter_late_scrapes_total", "Scrapes that were over only after their read had ended")

# jobs
JOBS_UNREADABLE = Counter("forewarn_jobs_unreadable_values_total", "Values of jobs that cannot be read, at each reading", ["field"])

# kernel log and XIDs
KERNEL_LINES = Counter("forewarn_kernel_log_lines_total", "Lines of the kernel log by what became of them", ["outcome"])
KERNEL_OVERRUNS = Counter("forewarn_kernel_log_overruns_total", "Times that the ring overwrote records before they were read")
KERNEL_LOST = Counter("forewarn_kernel_log_lost_records_total", "Records that sequence numbers say were lost")
KERNEL_CUT = Counter("forewarn_kernel_log_cut_lines_total", "Lines over 8 KiB that were cut, and unended last lines of replaced files")
XID_UNKNOWN = Counter("forewarn_xid_unknown_total", "XIDs that the catalogue does not have")
XID_MERGED = Counter("forewarn_xid_merged_total", "Events that told again what another event had told", ["reason"])

# redfish
REDFISH_BYTES = Counter("forewarn_redfish_stream_bytes_total", "Bytes read from event streams")
REDFISH_PAYLOADS = Counter("forewarn_redfish_payloads_total", "Reports and events of BMCs, however they came", ["kind"])
REDFISH_ROWS = Counter("forewarn_redfish_rows_total", "Rows of reports: fresh, known already, gone, and odd ones by what is odd", ["kind"])
REDFISH_FORGOTTEN = Counter(
    "forewarn_redfish_forgotten_series_total", "Series of BMCs forgotten because there are too many; when they come again they are fresh"
)
REDFISH_REJECTED = Counter("forewarn_redfish_rejected_total", "Payloads, records and values that did not become a row", ["reason"])
REDFISH_REFUSED = Counter("forewarn_redfish_refused_requests_total", "Requests that a BMC did not grant", ["reason"])
REDFISH_LOGINS = Counter("forewarn_redfish_logins_total", "Logins by result, sessions found expired, logouts that failed", ["result"])
REDFISH_STREAM_ENDS = Counter("forewarn_redfish_stream_ends_total", "Event streams that ended or were not opened", ["reason"])
REDFISH_FAILURES = Counter("forewarn_redfish_failures_total", "Errors of ours while watching a BMC; it is watched anew")
REDFISH_GAP_SECONDS = Counter("forewarn_redfish_gap_seconds_total", "Fleet time between two streams of a BMC")
REDFISH_SKEW = Gauge("forewarn_redfish_clock_skew_seconds", "How far a BMC's clock is behind, smoothed", ["node"])
REDFISH_REPORTS = Gauge("forewarn_redfish_reports", "Reports of all BMCs by the way in which they come", ["mode"])
REDFISH_QUEUED = Gauge("forewarn_redfish_queued_batches", "Batches that wait for the collector")
REDFISH_PAUSED_SECONDS = Gauge("forewarn_redfish_paused_seconds", "Wall time that streams and polls have waited for the collector")

# NVML
NVML_GPU_POLLS = Counter("forewarn_nvml_gpu_polls_total", "GPUs polled, by what became of it", ["outcome"])
NVML_EVENTS = Counter("forewarn_nvml_events_total", "Events that NVML told")
NVML_WORKER_STARTS = Counter("forewarn_nvml_worker_starts_total", "Worker processes started")
NVML_WORKER_ENDS = Counter("forewarn_nvml_worker_ends_total", "Worker processes that ended unasked", ["reason"])
