module github.com/phasecol/phasecol/exporter/chrometraceexporter

go 1.25.0
