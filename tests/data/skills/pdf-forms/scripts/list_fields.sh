#!/bin/sh
pdftk "$1" dump_data_fields
