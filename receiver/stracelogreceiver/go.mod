module github.com/phasecol/phasecol/receiver/stracelogreceiver

go 1.25.0
